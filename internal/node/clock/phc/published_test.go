// SPDX-License-Identifier: Apache-2.0

package phc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestWhatIsPublishedIsRead(t *testing.T) {
	folder := t.TempDir()
	want := Reading{Ahead: 37*time.Second - 5, Exact: 80}
	testlab.Must(t, Publish(folder, "eth0", want))
	got, err := Published(folder, "eth0").Compare()
	if err != nil || got.Ahead != want.Ahead || got.Exact < want.Exact || got.Exact > want.Exact+3*time.Microsecond {
		t.Errorf("got %+v, %v", got, err)
	}
	Withdraw(folder, "eth0")
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if got, err := Published(folder, "eth0").Compare(); err == nil {
		t.Errorf("withdrawn, and read as %+v", got)
	}
}

func TestOnlyFreshReadingsCount(t *testing.T) {
	const second = "1000000000"
	for name, test := range map[string]struct {
		line string
		want Reading
		says string
	}{
		"a second old":       {"-40 20 1" + second[1:], Reading{Ahead: -40, Exact: 20 + time.Microsecond, Age: time.Second}, ""},
		"four seconds old":   {"40 20 -2" + second[1:], Reading{}, "was written 4s ago"},
		"of the future":      {"40 20 9" + second[1:], Reading{}, "no reading"},
		"of negative errors": {"40 -20 1" + second[1:], Reading{}, "no reading"},
		"cut":                {"40 20", Reading{}, "no reading"},
		"empty":              {"", Reading{}, "no reading"},
		"garbage":            {strings.Repeat("x", 100), Reading{}, "no reading"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse("card-eth0", test.line, 2*time.Second)
			if got != test.want || (err == nil) != (test.says == "") || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestAFileThatIsNoneIsAnError(t *testing.T) {
	folder := t.TempDir()
	testlab.Must(t, os.Mkdir(filepath.Join(folder, "card-eth0"), 0o755))
	if got, err := Published(folder, "eth0").Compare(); err == nil {
		t.Errorf("got %+v", got)
	}
}
