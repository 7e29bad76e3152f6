// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// defaultAppSocket is where a node's ktsnd listens for applications outside of pods.
const defaultAppSocket = "/run/ktsn/app.sock"

const (
	preloadVariable = "LD_PRELOAD"
	socketVariable  = "KTSN_SOCKET"
)

const runLong = `Starts APP with libktsn loaded, so that datagrams which it stamps with a transmit time leave through ktsnd.
ktsn becomes APP: same process, same standard streams, APP's exit status. APP must be linked dynamically.`

func newRun(env *environment) *cobra.Command {
	var socket, library string
	var allowWithout bool
	command := &cobra.Command{
		Use:   "run [options] -- APP [arguments]",
		Short: "Start an application with libktsn",
		Long:  runLong,
		Args:  needApplication,
		RunE: func(_ *cobra.Command, arguments []string) error {
			program, err := findApplication(arguments[0])
			if err != nil {
				return err
			}
			if library, err = findLibrary(library); err != nil {
				return err
			}
			if err := checkListening(socket); err != nil && !allowWithout {
				return err
			}
			environ := withPreload(os.Environ(), library, socket)
			if err := syscall.Exec(program, arguments, environ); err != nil {
				return fmt.Errorf("start %s: %w", program, err)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.SetInterspersed(false) // options behind APP are APP's
	flags.StringVar(&socket, "socket", defaultAppSocket, "ktsnd's socket for applications")
	flags.StringVar(&library, "lib", env.beside("libktsn.so"), "libktsn.so")
	flags.BoolVar(&allowWithout, "allow-without", false, "start APP also when no ktsnd listens on the socket")
	return command
}

func needApplication(_ *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return usageError{errors.New("no application; give it behind --, as in `ktsn run -- tsnperf talker ...`")}
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

// checkListening tries the socket and closes it again.
func checkListening(path string) error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("no ktsnd listens on %s (%w); start it, name another socket with --socket, or "+
			"start the application without it by --allow-without", path, errors.Unwrap(err))
	}
	return conn.Close()
}

// withPreload puts our library before whatever is preloaded already and names the socket.
func withPreload(environ []string, library, socket string) []string {
	preload := library
	var kept []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == socketVariable:
		case name == preloadVariable && value != "":
			preload += ":" + value
		case name == preloadVariable:
		default:
			kept = append(kept, variable)
		}
	}
	return append(kept, preloadVariable+"="+preload, socketVariable+"="+socket)
}
