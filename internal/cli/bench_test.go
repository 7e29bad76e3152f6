// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// measuring is a script that plays ktsn-bench: it prints its arguments, waits if an argument requests that, and exits with status 7.
const measuring = `#!/bin/sh
case "$1" in
__complete) printf '%s\n' "$*" --messages :4 ;;
*) trap 'echo ended; exit 9' TERM; echo "$*"; while [ "$2" = wait ]; do sleep 0.01; done; exit 7 ;;
esac
`

// ktsnWithBench returns the command of a ktsn that stands in a folder of its own, with the script beside it or in PATH.
func ktsnWithBench(t *testing.T, script string, arguments ...string) *exec.Cmd {
	t.Helper()
	local, other := t.TempDir(), t.TempDir()
	if err := os.Symlink("/bin/sleep", filepath.Join(other, "sleep")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(local, "ktsn")
	if err := copyProgram(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	if folder := map[string]string{"beside": local, "PATH": other}[script]; folder != "" {
		if err := os.WriteFile(filepath.Join(folder, "ktsn-bench"), []byte(measuring), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(program, arguments...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PATH=") }),
		wholeVariable+"=1", "PATH="+other)
	return command
}

func copyProgram(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

func TestBenchExecutesKtsnBench(t *testing.T) {
	for name, test := range map[string]struct {
		script    string
		arguments []string
		printed   string
		status    int
		message   string
	}{
		"beside ktsn":              {"beside", []string{"bench", "run", "quick", "--out", "x"}, "bench run quick --out x\n", 7, ""},
		"in PATH":                  {"PATH", []string{"demo", "--short", "--", "-x"}, "demo --short -- -x\n", 7, ""},
		"its help":                 {"beside", []string{"bench", "compare", "--help"}, "bench compare --help\n", 7, ""},
		"help for it":              {"beside", []string{"help", "demo"}, "demo --help\n", 7, ""},
		"help for a command of it": {"beside", []string{"help", "bench", "run"}, "bench run --help\n", 7, ""},
		"its words":                {"beside", []string{"__complete", "demo", "--m"}, "__complete demo --m\n--messages\n:4\n", 0, ""},
		"nowhere": {"", []string{"demo", "--short"}, "", 1,
			"ktsn: `ktsn demo` needs the program ktsn-bench: it is neither in the folder of ktsn nor in PATH; `make build` builds"},
		"no help of what is nowhere": {"", []string{"bench", "--help"}, "", 1, "needs the program ktsn-bench"},
	} {
		t.Run(name, func(t *testing.T) {
			command := ktsnWithBench(t, test.script, test.arguments...)
			var stdout, stderr strings.Builder
			command.Stdout, command.Stderr = &stdout, &stderr
			_ = command.Run()
			if status := command.ProcessState.ExitCode(); status != test.status || stdout.String() != test.printed {
				t.Errorf("status %d, printed %q, said %q", status, stdout.String(), stderr.String())
			}
			if test.message != "" && (!strings.Contains(stderr.String(), test.message) || strings.Count(stderr.String(), "\n") != 1) {
				t.Errorf("said %q", stderr.String())
			}
		})
	}
}

func TestBenchPassesSignals(t *testing.T) {
	command := ktsnWithBench(t, "beside", "demo", "wait")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var first string
	if _, err := fmt.Fscanln(output, &first, new(string)); err != nil || first != "demo" {
		t.Errorf("it printed %q, %v", first, err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(output)
	_ = command.Wait()
	if status := command.ProcessState.ExitCode(); status != 9 || string(rest) != "ended\n" {
		t.Errorf("status %d, printed %q", status, rest)
	}
}
