package lab

import "testing"

// Whoever names no bus gets RabbitMQ once it is there, NATS before that and where
// it is not, and the bus that forgets everything only where NATS is off, too.
func TestDefaultBus(t *testing.T) {
	tests := []struct{ rabbitmq, nats, want string }{
		{Ready, Ready, "rabbitmq"},
		{Starting, Ready, "nats"},
		{Starting, Starting, "nats"},
		{Off, Starting, "nats"},
		{Off, Off, "inmemory"},
		{Starting, Off, "inmemory"},
		{Ready, Off, "rabbitmq"},
	}
	for _, tt := range tests {
		l := &Live{infos: []BusInfo{{Name: "rabbitmq", State: tt.rabbitmq}, {Name: "nats", State: tt.nats}, {Name: "inmemory", State: Ready}}}
		if got := l.DefaultBus(); got != tt.want {
			t.Errorf("rabbitmq %s, nats %s: default %s, want %s", tt.rabbitmq, tt.nats, got, tt.want)
		}
	}
}
