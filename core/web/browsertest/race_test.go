//go:build race

package browsertest

// raced: the playground is built like the tests, with the race detector.
const raced = true
