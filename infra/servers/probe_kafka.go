package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// probeKafka asks the brokers for ApiVersions, which a broker answers from the
// moment it processes requests. One answer will do.
func probeKafka(ctx context.Context, brokers string) (version string, err error) {
	var errs []error
	for addr := range strings.SplitSeq(brokers, ",") {
		version, err := askKafka(ctx, strings.TrimSpace(addr))
		if err == nil {
			return version, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func askKafka(ctx context.Context, addr string) (version string, err error) {
	conn, _, err := dial(ctx, "kafka://"+addr, "9092")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	const correlation = 7
	ask := kmsg.NewApiVersionsRequest()
	ask.Version = 3 // the first that tells features
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "outbox-playground", "1"
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, &ask, correlation)); err != nil {
		return "", err
	}
	var head struct{ Size, Correlation int32 }
	if err := binary.Read(conn, binary.BigEndian, &head); err != nil {
		return "", err
	}
	if head.Correlation != correlation || head.Size < 6 || head.Size > 1<<20 {
		return "", errors.New("the server does not answer like Kafka")
	}
	body := make([]byte, head.Size-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", err
	}
	return kafkaFeatures(body)
}

// unsupportedVersion is how a broker too old for the question answers it, in the
// format of version 0.
const unsupportedVersion = 35

// kafkaFeatures reads from an answer to ApiVersions the level of the cluster's
// metadata, which is the nearest thing to a version that Kafka tells.
func kafkaFeatures(body []byte) (string, error) {
	if code := int16(binary.BigEndian.Uint16(body)); code != 0 {
		if code == unsupportedVersion {
			return "", nil
		}
		return "", fmt.Errorf("the server answered with Kafka's error code %d", code)
	}
	answer := kmsg.NewApiVersionsResponse()
	answer.Version = 3
	if err := answer.ReadFrom(body); err != nil {
		return "", err
	}
	for _, f := range answer.FinalizedFeatures {
		if f.Name == "metadata.version" {
			return fmt.Sprintf("metadata.version %d", f.MaxVersionLevel), nil
		}
	}
	return "", nil
}
