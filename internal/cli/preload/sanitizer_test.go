// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"os/exec"
	"testing"
)

// A library of everybody's stands for libktsn.so.
const preloaded = "libm.so.6"

func TestSanitizer(t *testing.T) {
	program := compile(t, "-fsanitize=address")
	sanitizer := Sanitizer(program)
	if sanitizer == "" {
		t.Fatalf("%s was linked with AddressSanitizer, and it was not found", program)
	}
	start := func(preload string) error {
		command := exec.Command(program)
		command.Env = []string{"LD_PRELOAD=" + preload}
		return command.Run()
	}
	if err := start(preloaded); err == nil {
		t.Fatal("the program starts with any library in front; then nothing needs to be done")
	}
	if err := start(sanitizer + ":" + preloaded); err != nil {
		t.Errorf("the program does not start with %s in front: %v", sanitizer, err)
	}
}

func TestSanitizerOfOtherPrograms(t *testing.T) {
	for _, path := range []string{ordinary, put(t, "script", "#!/bin/sh\n"), "/nowhere"} {
		if got := Sanitizer(path); got != "" {
			t.Errorf("%s: %q", path, got)
		}
	}
}
