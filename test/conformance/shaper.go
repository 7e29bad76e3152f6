// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// RunShaper plays a scenario with ktsnd's shaper; program is ktsn-shaper-replay.
func RunShaper(ctx context.Context, program string, what *scenario.Scenario) (*Result, error) {
	command := exec.CommandContext(ctx, program)
	command.Stdin = strings.NewReader(what.ReplayLines())
	output, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("replay %s: %w", what.Name, err)
	}
	result := newResult()
	for lines := bufio.NewScanner(strings.NewReader(string(output))); lines.Scan(); {
		if err := addReplayed(result, what, lines.Text()); err != nil {
			return nil, fmt.Errorf("replay %s: %q: %w", what.Name, lines.Text(), err)
		}
	}
	if err := result.hold(what); err != nil {
		return nil, fmt.Errorf("replay %s: %w", what.Name, err)
	}
	return result, nil
}

// addReplayed parses "departed ID TIME" or "dropped ID TIME REASON".
func addReplayed(result *Result, what *scenario.Scenario, line string) error {
	var (
		event string
		id    uint32
		at    int64
	)
	if _, err := fmt.Sscan(line, &event, &id, &at); err != nil {
		return err
	}
	fields := strings.Fields(line)
	switch {
	case event == "departed" && len(fields) == 3:
		return result.depart(id, what.Window(at-scenario.ReplayStart))
	case event == "dropped" && len(fields) == 4:
		return result.drop(id, scenario.Reason(fields[3]))
	}
	return errors.New("no line that we know")
}
