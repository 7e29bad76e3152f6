// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
)

// request is a shell script, reply its output and exit status. The first reply, without a number, means that the
// machine is ready. Both are lines of JSON. test/netns has the other end.
type request struct {
	Number int
	Script string
}

type reply struct {
	Number, Status int
	Output         string
}

// serve runs scripts one after another until the port is closed.
func serve(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: serve PORT")
	}
	port, err := openPort(arguments[0])
	if err != nil {
		return err
	}
	defer port.Close()
	answers := json.NewEncoder(port)
	if err := answers.Encode(reply{}); err != nil {
		return err
	}
	for requests := json.NewDecoder(port); ; {
		var next request
		if err := requests.Decode(&next); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if err := answers.Encode(next.run()); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// openPort waits for the driver, which may have just been loaded.
func openPort(name string) (port hosttime.Port, err error) {
	for range 100 {
		if port, err = hosttime.OpenPort(name); err == nil {
			return port, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, err
}

func (r *request) run() reply {
	output, err := exec.Command("/bin/sh", "-euc", r.Script).CombinedOutput()
	answer := reply{Number: r.Number, Output: string(output)}
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		answer.Status = failed.ExitCode()
	case err != nil:
		answer.Status, answer.Output = -1, err.Error()
	}
	return answer
}
