package servers

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func fakeKafka(s site) plan {
	return plan{url: address(s.port), mode: Fake, version: withVersion("kfake", "github.com/twmb/franz-go/pkg/kfake"),
		note:   "a double (kfake): speaks the protocol and keeps its log in files; no replication, no transactions",
		engine: &doubleKafka{port: s.port, dir: filepath.Join(s.dir, "kfake")}}
}

// doubleKafka runs a new cluster object at each start; they share the directory,
// which holds logs and group offsets.
type doubleKafka struct {
	port    int
	dir     string
	cluster *kfake.Cluster // nil while it does not run
}

func (d *doubleKafka) start(context.Context) (err error) {
	d.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(d.port), kfake.DataDir(d.dir),
		kfake.GroupMinSessionTimeout(time.Second))
	return err
}

func (d *doubleKafka) kill() error {
	if d.cluster != nil {
		d.cluster.Close()
		d.cluster = nil
	}
	return nil
}

func (d *doubleKafka) stop(context.Context) error { return d.kill() }

func (d *doubleKafka) pid() int { return os.Getpid() }
