// SPDX-License-Identifier: Apache-2.0

// Command ktsn-test-asker sends requests to a name of /etc/hosts continuously, and prints each message with the time of
// its answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
)

func main() {
	a := asker.Asker{}
	flag.StringVar(&a.Name, "name", "", "who is asked")
	flag.StringVar(&a.Hosts, "hosts", "/etc/hosts", "where the name stands")
	port := flag.Uint("port", 8081, "at which it answers by UDP what follows \"echo \"")
	flag.BoolVar(&a.IPv6, "6", false, "ask its address of IPv6")
	flag.DurationVar(&a.Cycle, "cycle", 10*time.Millisecond, "between two messages")
	flag.DurationVar(&a.Patience, "patience", 2*time.Second, "how long an answer is waited for")
	flag.Parse()
	if *port == 0 || *port > 65535 || a.Name == "" || a.Cycle <= 0 {
		fmt.Fprintln(os.Stderr, "ktsn-test-asker needs --name, a --port from 1 to 65535, and a --cycle that lasts")
		os.Exit(2)
	}
	a.Port = uint16(*port)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := a.Run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ktsn-test-asker:", err)
		os.Exit(1)
	}
}
