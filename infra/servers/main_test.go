package servers_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"outboxplayground/infra/servers"
)

// ownerMark makes the test binary a process that owns one server and waits to be killed.
const ownerMark = "SERVERS_TEST_OWNER"

func TestMain(m *testing.M) {
	if name := os.Getenv(ownerMark); name != "" {
		ownServer(name, os.Getenv(ownerMark+"_FORM"))
		return
	}
	goleak.VerifyTestMain(m)
}

func ownServer(name, form string) {
	if name == "home" {
		ownHome(form)
	}
	s, err := servers.Start(context.Background(), name, servers.Options{Form: form, NoSync: true})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("up", s.PID(), s.Dir)
	select {}
}

// ownHome holds the lock of a home and tells where its servers would be.
func ownHome(home string) {
	_, ok, err := servers.Lock(home)
	if err == nil && ok {
		err = servers.WriteEndpoints(home, servers.Endpoints{PID: os.Getpid()})
	}
	fmt.Println("up", os.Getpid(), home, ok, err)
	select {}
}
