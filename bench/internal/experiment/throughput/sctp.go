// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// The program that measures SCTP without the kernel's, and its largest message.
const (
	sctpProgram      = "ktsn-test-sctp"
	sctpPort         = 5202
	mostMessageBytes = 1 << 16
)

// association is the output of an association's server.
type association struct {
	Bytes     int64 `json:"bytes"`
	ElapsedNs int64 `json:"elapsed_ns"`
}

// associate runs an SCTP association. Its ends retry by themselves, so the client need not wait for the server.
func (e *Experiment) associate(ctx context.Context, near, far testbed.End, outcome *engine.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, e.Duration+omitted+time.Minute)
	defer cancel()
	server, err := far.Start(ctx, sctpCommand("server", far.Address().String(), strconv.Itoa(sctpPort), seconds(omitted)))
	if err != nil {
		return err
	}
	defer func() { _, _ = server.Stop() }()
	client, err := near.Start(ctx, sctpCommand("client", near.Address().String(), far.Address().String(), strconv.Itoa(sctpPort),
		seconds(e.Duration+omitted), strconv.Itoa(e.MessageBytes)))
	if err != nil {
		return err
	}
	if output, err := client.Wait(ctx); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(output))
	}
	output, err := server.Wait(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(output))
	}
	outcome.Said[sctpProgram] = output
	outcome.Values[ValueBps], err = rateOf(output)
	return err
}

// rateOf is the received payload in bit/s.
func rateOf(output string) (float64, error) {
	var got association
	if err := json.Unmarshal([]byte(output), &got); err != nil {
		return 0, fmt.Errorf("%s printed no JSON: %w", sctpProgram, err)
	}
	if got.Bytes <= 0 || got.ElapsedNs <= 0 {
		return 0, errors.New("nothing that " + sctpProgram + " sent arrived behind the first second")
	}
	return float64(got.Bytes) * 8 / time.Duration(got.ElapsedNs).Seconds(), nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

func sctpCommand(role string, arguments ...string) *testbed.Command {
	return &testbed.Command{Name: "SCTP " + role, Program: sctpProgram, Package: "libusrsctp-dev", Arguments: append([]string{role}, arguments...)}
}
