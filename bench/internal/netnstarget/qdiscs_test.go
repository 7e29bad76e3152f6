// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestUntimedHost(t *testing.T) {
	refused := exec.Command("false").Run()
	for name, test := range map[string]struct {
		tc   func(...string) (string, error)
		want string
	}{
		"it has neither": {func(...string) (string, error) { return "Error: Specified qdisc kind is unknown.\nmore\n", refused },
			`tc qdisc add: etf: "Error: Specified qdisc kind is unknown.", fq: "Error: Specified qdisc kind is unknown."`},
		"it has fq": {func(arguments ...string) (string, error) {
			if arguments[1] == "add" && arguments[5] == "etf" {
				return "Error: Operation not supported.\n", refused
			}
			return "", nil
		}, `etf: "Error: Operation not supported.", fq: accepted, but path host is not built for it`},
		"there is no tc": {func(...string) (string, error) { return "", errors.New("executable file not found") },
			"etf could not be tried: executable file not found"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := untimedHost(test.tc); !strings.Contains(got.Why, test.want) {
				t.Errorf("got %q, want %q", got.Why, test.want)
			}
		})
	}
}

func TestTriedQdiscIsRemoved(t *testing.T) {
	there := 0
	untimedHost(func(arguments ...string) (string, error) {
		switch arguments[1] {
		case "add":
			there++
		case "del":
			there--
		}
		return "", nil
	})
	if there != 0 {
		t.Errorf("%d are left", there)
	}
}
