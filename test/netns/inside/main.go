// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Inside is what tests run in a virtual machine. `serve` does what the host asks for over a virtio port; the other commands send and
// receive.
package main

import (
	"fmt"
	"os"
)

var commands = map[string]func(arguments []string) error{
	"serve":  serve,
	"echo":   echo,
	"ask":    ask,
	"send":   send,
	"frames": frames,
	"belief": belief,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: ktsn-test-inside serve|echo|ask|send|frames|belief ...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "ktsn-test-inside:", err)
		os.Exit(1)
	}
}
