package servers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// probeAMQP opens an AMQP 0-9-1 connection as far as the server's first frame,
// connection.start, whose properties hold the version.
func probeAMQP(ctx context.Context, rawURL string) (string, error) {
	conn, _, err := dial(ctx, rawURL, "5672")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return "", err
	}
	var head struct {
		Type    uint8
		Channel uint16
		Size    uint32
	}
	if err := binary.Read(conn, binary.BigEndian, &head); err != nil {
		return "", err
	}
	if head.Type != 1 || head.Size > 64<<10 {
		return "", errors.New("the server does not greet like AMQP 0-9-1")
	}
	frame := make([]byte, head.Size)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(frame, []byte("\x07versionS")) // a table entry: short string, 'S', long string
	if len(rest) < 4 {
		return "", nil
	}
	n := int(binary.BigEndian.Uint32(rest))
	if n > len(rest)-4 {
		return "", nil
	}
	return string(rest[4 : 4+n]), nil
}
