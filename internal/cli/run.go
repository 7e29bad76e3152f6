// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/cli/preload"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// defaultAppSocket is where a node's ktsnd listens for applications outside of pods.
const defaultAppSocket = "/run/ktsn/app.sock"

const (
	preloadVariable = "LD_PRELOAD"
	socketVariable  = "KTSN_SOCKET"
	receiveVariable = "KTSN_RECEIVE"
)

const runLong = `Starts APP with libktsn loaded, so that datagrams which it stamps with a transmit time leave through ktsnd.
ktsn becomes APP: same process, same standard streams, APP's exit status.

libktsn sees the calls that APP makes of the C library, not those of programs that are linked statically, Go's own
system calls, programs with set-user-ID or file capabilities, nor what io_uring sends. Such programs need no "run" in
a pod whose network captures: there their datagrams go through the pod's relay, which takes a system call each and
more lead. What can be told from APP's file, or its interpreter's, is refused in a sentence.`

func newRun(env *commandline.Environment) *cobra.Command {
	var socket, library string
	var allowWithout, receive bool
	command := &cobra.Command{
		Use: "run [options] -- APP [arguments]",
		// Options behind APP are APP's.
		DisableFlagsInUseLine: true,
		Short:                 "Start an application with libktsn",
		Long:                  runLong,
		Args:                  needApplication,
		RunE: func(_ *cobra.Command, arguments []string) error {
			program, err := findApplication(arguments[0])
			if err != nil {
				return err
			}
			if library, err = findLibrary(library); err != nil {
				return err
			}
			environ := withPreload(os.Environ(), preload.Sanitizer(program), library, socket)
			switch answers, err := checkUse(program, socket, allowWithout, env.Stderr); {
			case err != nil:
				return err
			case !answers:
				environ = os.Environ()
			case receive:
				environ = withReceive(environ)
			}
			if err := syscall.Exec(program, arguments, environ); err != nil {
				return fmt.Errorf("start %s: %w", program, err)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.SetInterspersed(false) // options behind APP are APP's
	flags.StringVar(&socket, "socket", defaultAppSocket, "ktsnd's socket for applications")
	flags.StringVar(&library, "lib", env.Sibling("libktsn.so"), "libktsn.so")
	flags.BoolVar(&receive, "receive", false, "have APP's UDP sockets get receive rings, where ktsnd offers them to the pod; the kernel serves the others")
	flags.BoolVar(&allowWithout, "allow-without", false, "start APP also when libktsn will be of no use to it; without libktsn when no ktsnd answers")
	return command
}

func needApplication(_ *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return commandline.Usage(errors.New("no application; give it behind --, as in `ktsn run -- tsnperf talker ...`"))
	}
	return nil
}

func findApplication(name string) (string, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find the application: %w", err)
	}
	return program, nil
}

// findLibrary makes the path absolute: the application may change its folder and start others.
func findLibrary(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find libktsn.so: %w", err)
	}
	if _, err := os.Stat(absolute); err != nil {
		return "", fmt.Errorf("find libktsn.so: %w; run `make build`, or name it with --lib", err)
	}
	if strings.ContainsAny(absolute, " :") {
		return "", fmt.Errorf("%s cannot be preloaded: spaces and colons separate entries of %s; move it",
			absolute, preloadVariable)
	}
	return absolute, nil
}

// checkUse looks for what would make libktsn useless to the program: a refusal, or a warning when the user
// allows to go without it. Where no ktsnd answers, going without takes a program without libktsn: with it, timed messages
// would wait for the ktsnd of a socket that is there. What libktsn cannot reach may start programs that it can.
func checkUse(program, socket string, allowWithout bool, stderr io.Writer) (answers bool, err error) {
	answers = true
	err = preload.Check(program)
	advice := "in a pod on a network that captures, start it by itself: a relay serves it, for a system call a message and more lead; " +
		"elsewhere its timed messages do not go through ktsnd, and --allow-without starts it nevertheless"
	if err == nil {
		err = preload.Greet(socket)
		answers = err == nil
		advice = "name another socket with --socket, or start the application without ktsnd by --allow-without"
	}
	switch {
	case err == nil:
		return true, nil
	case !allowWithout:
		return false, fmt.Errorf("%w; %s", err, advice)
	}
	fmt.Fprintf(stderr, "ktsn: %v; %s goes without\n", err, program)
	return answers, nil
}

// withPreload puts our library behind whatever is preloaded already, and that behind the program's sanitizer, which must be
// the first; and names the socket.
func withPreload(environ []string, sanitizer, library, socket string) []string {
	var kept, preloaded []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case socketVariable:
		case preloadVariable:
			preloaded = strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' })
		default:
			kept = append(kept, variable)
		}
	}
	// A library that is preloaded already is where it should be.
	if sanitizer != "" && !slices.ContainsFunc(preloaded, func(file string) bool { return filepath.Base(file) == sanitizer }) {
		preloaded = append([]string{sanitizer}, preloaded...)
	}
	preloaded = append(preloaded, library)
	return append(kept, preloadVariable+"="+strings.Join(preloaded, ":"), socketVariable+"="+socket)
}

// withReceive makes libktsn request receive rings.
func withReceive(environ []string) []string {
	kept := slices.DeleteFunc(environ, func(variable string) bool { return strings.HasPrefix(variable, receiveVariable+"=") })
	return append(kept, receiveVariable+"=ring")
}
