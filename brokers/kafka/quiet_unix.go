//go:build unix

package kafka

import "syscall"

// socketQuiet peeks at a socket without blocking: no byte, no end, no error.
func socketQuiet(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
