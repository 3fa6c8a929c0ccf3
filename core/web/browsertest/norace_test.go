//go:build !race

package browsertest

// raced: the playground is built like the tests, without the race detector.
const raced = false
