package brokertest

func outageChecks() []Check { return nil }
