// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// ktsn runs a command line and returns its exit status and what it said.
func ktsn(t *testing.T, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errors strings.Builder
	status = Main(t.Context(), arguments, &out, &errors)
	return status, out.String(), errors.String()
}

func TestInvalidCommandLines(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere.sock")
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      string
	}{
		"an unknown command":              {[]string{"dance"}, commandline.ExitUsage, `"dance" is not a command`},
		"an unknown option":               {[]string{"status", "--fast"}, commandline.ExitUsage, "unknown flag: --fast; `ktsn status --help`"},
		"a duration that is none":         {[]string{"top", "--interval", "soon"}, commandline.ExitUsage, "--interval"},
		"a word behind the options":       {[]string{"status", "now"}, commandline.ExitUsage, `"now" is too much`},
		"an option without its value":     {[]string{"status", "--control"}, commandline.ExitUsage, "--control"},
		"an output format that is none":   {[]string{"status", "-o", "xml"}, commandline.ExitUsage, `"xml" for "-o, --output" flag: accepted are text, wide, json`},
		"no application to run":           {[]string{"run"}, commandline.ExitUsage, "no application"},
		"a status without a daemon":       {[]string{"status", "--control", nowhere}, commandline.ExitFailure, "is ktsnd running"},
		"an application that is not":      {[]string{"run", "--", "/nowhere/app"}, commandline.ExitFailure, "find the application"},
		"a library that is not there":     {[]string{"run", "--lib", nowhere, "--", "true"}, commandline.ExitFailure, "make build"},
		"a library that cannot be named":  {[]string{"run", "--lib", spacedFile(t), "--", "true"}, commandline.ExitFailure, "cannot be preloaded"},
		"a schedule without its file":     {[]string{"schedule", "check"}, commandline.ExitUsage, "no FILE; `ktsn schedule check --help`"},
		"two schedules":                   {[]string{"schedule", "set", "a", "b"}, commandline.ExitUsage, `"b" is too much`},
		"a schedule that is not there":    {[]string{"schedule", "check", nowhere}, commandline.ExitFailure, "nowhere.sock"},
		"an unknown word behind schedule": {[]string{"schedule", "draw"}, commandline.ExitUsage, `"draw" is not a command; ` + "`ktsn schedule --help`"},
		"a link speed that is none":       {[]string{"schedule", "check", "--link-speed", "fast", "x"}, commandline.ExitUsage, `--link-speed "fast" is no link speed`},
		"a guard band that is none":       {[]string{"schedule", "check", "--guard-band", "-1us", "x"}, commandline.ExitUsage, "--guard-band -1µs; give"},
		"a format of schedules":           {[]string{"schedule", "get", "-o", "xml"}, commandline.ExitUsage, "accepted are text, json, yaml"},
		"a schedule without a daemon":     {[]string{"schedule", "get", "--control", nowhere}, commandline.ExitFailure, "is ktsnd running"},
		"a trace without a daemon":        {[]string{"trace", "--control", nowhere}, commandline.ExitFailure, "is ktsnd running"},
		"a flow that is no number":        {[]string{"trace", "--flow", "mine"}, commandline.ExitUsage, "--flow"},
		"an empty namespace of workloads": {[]string{"fed", "where", ""}, commandline.ExitUsage, "NAMESPACE is empty; give one, or leave it out"},
		"an empty service of links":       {[]string{"fed", "links", ""}, commandline.ExitUsage, "SERVICE is empty; give one, or leave it out"},
		"an empty node of clocks":         {[]string{"clock", ""}, commandline.ExitUsage, "NODE is empty; give one, or leave it out"},
		"an empty pod to check":           {[]string{"doctor", ""}, commandline.ExitUsage, "POD is empty; give one, or leave it out"},
		"a format of traces":              {[]string{"trace", "-o", "yaml"}, commandline.ExitUsage, "accepted are text, wide, json"},
		"an order that is none":           {[]string{"top", "--sort", "beauty"}, commandline.ExitUsage, `--sort: "beauty" is no order; accepted are rate,`},
		"an interval without end":         {[]string{"top", "--interval", "2h"}, commandline.ExitUsage, "--interval 2h0m0s; give"},
		"a top without a daemon":          {[]string{"top", "--control", nowhere}, commandline.ExitFailure, "is ktsnd running"},
		"a peer without its subnet":       {[]string{"node", "peers", "add", "--vni", "42", "192.0.2.2"}, commandline.ExitUsage, `no SUBNET after ADDRESS "192.0.2.2"`},
		"a peer without anything":         {[]string{"node", "peers", "add", "--vni", "42"}, commandline.ExitUsage, "no ADDRESS; `ktsn node peers add --help`"},
		"two peers to forget":             {[]string{"node", "peers", "del", "--vni", "42", "192.0.2.2", "192.0.2.3"}, commandline.ExitUsage, `"192.0.2.3" is too much`},
		"no strategy":                     {[]string{"strategy", "set"}, commandline.ExitUsage, "no NAME"},
		"no classes":                      {[]string{"classes", "set"}, commandline.ExitUsage, "neither --map nor --pcp"},
		"too few classes":                 {[]string{"classes", "set", "--map", "1,2"}, commandline.ExitUsage, "--map has 2 numbers; must have 16"},
		"a class that is none":            {[]string{"classes", "set", "--pcp", "0,1,2,3,4,5,6,8"}, commandline.ExitUsage, "--pcp has 8 in place 7; must be from 0 to 7"},
		"a class that is no number":       {[]string{"classes", "set", "--pcp", "a"}, commandline.ExitUsage, "--pcp"},
		"a socket that nobody listens on": {[]string{"run", "--lib", os.Args[0], "--socket", nowhere, "--", "true"},
			commandline.ExitFailure, "no ktsnd listens on " + nowhere},
		"an application that cannot be reached": {[]string{"run", "--lib", os.Args[0], "--socket", nowhere, "--", os.Args[0]},
			commandline.ExitFailure, os.Args[0] + " is a Go program"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := ktsn(t, test.arguments...)
			if status != test.status || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("status %d, said %q", status, stderr)
			}
			if stdout != "" {
				t.Errorf("printed %q", stdout)
			}
		})
	}
}

func spacedFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lib ktsn.so")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelpIsSuccess(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--help"}, {"run", "--help"}, {"status", "--help"},
		{"top", "--help"}, {"trace", "--help"},
		{"schedule"}, {"schedule", "check", "--help"}, {"strategy"}, {"classes", "set", "--help"}} {
		if status, stdout, stderr := ktsn(t, arguments...); status != commandline.ExitOK || stdout == "" || stderr != "" {
			t.Errorf("ktsn %v: status %d, said %q", arguments, status, stderr)
		}
	}
}

func TestWithPreload(t *testing.T) {
	for name, test := range map[string]struct {
		environ   []string
		sanitizer string
		want      []string
	}{
		"nothing there": {[]string{"HOME=/root"}, "",
			[]string{"HOME=/root", "LD_PRELOAD=/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"another library there": {[]string{"LD_PRELOAD=/x.so:/y.so", "HOME=/root"}, "",
			[]string{"HOME=/root", "LD_PRELOAD=/x.so:/y.so:/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"several with spaces and empty places": {[]string{"LD_PRELOAD=/x.so  /y.so: "}, "",
			[]string{"LD_PRELOAD=/x.so:/y.so:/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"an empty value there": {[]string{"LD_PRELOAD="}, "",
			[]string{"LD_PRELOAD=/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"another socket there": {[]string{"KTSN_SOCKET=/old"}, "",
			[]string{"LD_PRELOAD=/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"a program with AddressSanitizer": {[]string{"LD_PRELOAD=/x.so"}, "libasan.so.8",
			[]string{"LD_PRELOAD=libasan.so.8:/x.so:/k/lib.so", "KTSN_SOCKET=/k/sock"}},
		"AddressSanitizer there already": {[]string{"LD_PRELOAD=/usr/lib/libasan.so.8"}, "libasan.so.8",
			[]string{"LD_PRELOAD=/usr/lib/libasan.so.8:/k/lib.so", "KTSN_SOCKET=/k/sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withPreload(test.environ, test.sanitizer, "/k/lib.so", "/k/sock"); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// wholeVariable makes the test binary play ktsn.
const wholeVariable = "KTSN_CLI_WHOLE_HELPER"

// runVariable makes the test binary play `ktsn run` with the arguments it is given.
const runVariable = "KTSN_CLI_RUN_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(wholeVariable) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(runVariable) != "" {
		os.Exit(Main(context.Background(), append([]string{"run"}, os.Args[1:]...), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "app.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go answerHello(listener)
	library := filepath.Join(dir, "libktsn.so")
	if err := os.WriteFile(library, nil, 0o644); err != nil { // the loader complains and goes on
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "--socket", socket, "--lib", library, "--receive", "--",
		"sh", "-c", `echo "$LD_PRELOAD $KTSN_SOCKET $KTSN_RECEIVE $0 $*"; exit 7`, "--quiet", "-x")
	command.Env = append(os.Environ(), runVariable+"=1")
	var stdout strings.Builder
	command.Stdout = &stdout
	err = command.Run()
	if command.ProcessState.ExitCode() != 7 {
		t.Errorf("exit status is not the application's: %v", err)
	}
	if want := library + " " + socket + " ring --quiet -x\n"; stdout.String() != want {
		t.Errorf("the application saw %q, want %q", stdout.String(), want)
	}
}

// answerHello plays a ktsnd that gives the answer to HELLO that datapath/ring/app_protocol.h describes, once.
func answerHello(listener *net.UnixListener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 128)); err == nil {
		reply := append([]byte("ktsn\x06\x00\x01\x00"), make([]byte, 32)...)
		_, _ = conn.Write(reply)
	}
}

// Its timed messages would wait for a ktsnd otherwise, if there were but the socket of one.
func TestRunWithoutKtsnd(t *testing.T) {
	command := exec.Command(os.Args[0], "--socket", "/nowhere/app.sock", "--lib", "/dev/null", "--allow-without", "--", "env")
	command.Env = append(os.Environ(), runVariable+"=1")
	output, err := command.Output()
	if environment := string(output); err != nil || !strings.Contains(environment, runVariable+"=1\n") ||
		strings.Contains(environment, "/dev/null") || strings.Contains(environment, "/nowhere") {
		t.Errorf("%v; the application's environment is\n%s", err, environment)
	}
}

func TestRunWithoutKtsndWarns(t *testing.T) {
	for name, test := range map[string]struct {
		application string
		want        string
	}{
		"when nobody listens": {"/bin/true", "(connect: no such file or directory); start one; starting /bin/true anyway"},
		// This test itself, which then plays `ktsn run --help`.
		"when it cannot be reached": {os.Args[0], "is a Go program"},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(os.Args[0], "--socket", "/nowhere/app.sock", "--lib", os.Args[0], "--allow-without",
				"--", test.application, "--help")
			command.Env = append(os.Environ(), runVariable+"=1")
			var stderr strings.Builder
			command.Stderr = &stderr
			_ = command.Run()
			if first, _, _ := strings.Cut(stderr.String(), "\n"); command.ProcessState.ExitCode() != 0 ||
				!strings.Contains(first, test.want) {
				t.Errorf("status %d, said %q", command.ProcessState.ExitCode(), stderr.String())
			}
		})
	}
}
