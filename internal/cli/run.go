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

libktsn intercepts calls of the C library. It does not see statically linked programs, Go's own system calls,
programs with set-user-ID or file capabilities, or io_uring. In a pod whose network captures, such programs need no
"run": the pod's relay takes their datagrams, with one system call for each and a longer lead time. ktsn rejects APP
if its file, or that of its interpreter, shows that libktsn cannot serve it.`

func newRun(env *commandline.Environment) *cobra.Command {
	var socket, library string
	var allowWithout, receive bool
	command := &cobra.Command{
		Use: "run [options] -- APP [arguments]",
		// Options after APP belong to APP.
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
	flags.SetInterspersed(false) // options after APP belong to APP
	flags.StringVar(&socket, "socket", defaultAppSocket, "ktsnd's socket for applications")
	flags.StringVar(&library, "lib", env.Sibling("libktsn.so"), "libktsn.so")
	flags.BoolVar(&receive, "receive", false, "request receive rings for APP's UDP sockets if ktsnd offers them to the pod; the kernel serves other sockets")
	flags.BoolVar(&allowWithout, "allow-without", false, "start APP even if libktsn cannot serve it; without libktsn if no ktsnd answers")
	return command
}

func needApplication(_ *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return commandline.Usage(errors.New("no application; name it after --, as in `ktsn run -- tsnperf talker ...`"))
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
		return "", fmt.Errorf("find libktsn.so: %w; install the package libktsn, run `make build`, or name it with --lib", err)
	}
	if strings.ContainsAny(absolute, " :") {
		return "", fmt.Errorf("%s cannot be preloaded: spaces and colons separate entries of %s; move it",
			absolute, preloadVariable)
	}
	return absolute, nil
}

// checkUse checks whether libktsn can serve the program. If it cannot, checkUse returns an error, or prints a warning if the user
// allows that. If no ktsnd answers, the program must start without libktsn, because its timed messages would wait for ktsnd.
// Otherwise it starts with libktsn, because it may start other programs.
func checkUse(program, socket string, allowWithout bool, stderr io.Writer) (answers bool, err error) {
	answers = true
	err = preload.Check(program)
	advice := "in a pod whose network captures, start it without `ktsn run`: a relay serves it, with one system call for each message and a longer " +
		"lead time; elsewhere its timed messages do not go through ktsnd; --allow-without starts it anyway"
	if err == nil {
		err = preload.Greet(socket)
		answers = err == nil
		advice = "name another socket with --socket, or start the application without ktsnd with --allow-without"
	}
	switch {
	case err == nil:
		return true, nil
	case !allowWithout:
		return false, fmt.Errorf("%w; %s", err, advice)
	}
	fmt.Fprintf(stderr, "ktsn: %v; starting %s anyway\n", err, program)
	return answers, nil
}

// withPreload appends libktsn to the preloaded libraries, puts the program's sanitizer before them, as it requires, and sets the socket.
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
	// A sanitizer that is preloaded already stays in its place.
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
