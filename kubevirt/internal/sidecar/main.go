// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const about = `Usage: ktsn-kubevirt [OPTION]...
       ktsn-kubevirt define --instance FILE [OPTION]... <DOMAIN >DOMAIN

Connects a virtual machine of KubeVirt to networks of KuberneTSN, as the sidecar of a network binding plugin: tells
virt-launcher which network devices the domain of libvirt has, and the machine what time this node has. KubeVirt starts
it. "define" reads a domain and prints it as virt-launcher would get it.

Options:
`

const (
	// defaultFolder is KubeVirt's folder of hooks.
	defaultFolder  = "/var/run/kubevirt-hooks"
	defaultBinding = "kubernetsn"
	// KubeVirt sets containerVariable.
	containerVariable = "CONTAINER_NAME"
)

// Main runs the command line, without the program's name, and returns the exit status.
func Main(ctx context.Context, arguments []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(arguments) > 0 && arguments[0] == "define" {
		return commandline.Exit(name, define(arguments[1:], stdin, stdout), stderr)
	}
	return commandline.Exit(name, serve(ctx, arguments, stdout, stderr), stderr)
}

func serve(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	s := &Sidecar{Log: slog.New(slog.NewTextHandler(stderr, nil)), pod: ownPod{}}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	s.register(flags)
	flags.DurationVar(&s.Limit, "limit", 0, "how far the machine's knowledge may be from this node's time; above it, it sends nothing timed (default: no limit)")
	if err := commandline.Parse(flags, about, arguments, stdout); err != nil {
		return err
	}
	if s.Limit < 0 {
		return fmt.Errorf("--limit %v is below zero; %w", s.Limit, commandline.ErrUsage)
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.Run(ctx)
}

// register adds the options of both commands.
func (s *Sidecar) register(flags *flag.FlagSet) {
	flags.StringVar(&s.Binding, "binding", defaultBinding, "`NAME` under which KubeVirt's configuration has this plugin")
	flags.StringVar(&s.Folder, "hooks", defaultFolder, "`FOLDER` of KubeVirt's hooks")
	flags.StringVar(&s.Container, "container", "", "`NAME` of this container; without it "+containerVariable+" has it")
}

func (s *Sidecar) check() error {
	s.Container = cmp.Or(s.Container, os.Getenv(containerVariable))
	switch {
	case s.Binding == "":
		return fmt.Errorf("--binding is empty; %w", commandline.ErrUsage)
	case s.Container == "":
		return fmt.Errorf("neither --container nor %s names this container; %w", containerVariable, commandline.ErrUsage)
	}
	return nil
}

func define(arguments []string, stdin io.Reader, stdout io.Writer) error {
	s := &Sidecar{pod: ownPod{}}
	flags := flag.NewFlagSet(name+" define", flag.ContinueOnError)
	s.register(flags)
	instance := flags.String("instance", "", "`FILE` of the VirtualMachineInstance, in JSON")
	if err := commandline.Parse(flags, about, arguments, stdout); err != nil {
		return err
	}
	if *instance == "" {
		return fmt.Errorf("no --instance says which virtual machine it is; %w", commandline.ErrUsage)
	}
	if err := s.check(); err != nil {
		return err
	}
	text, err := os.ReadFile(*instance)
	if err != nil {
		return err
	}
	domain, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("read the domain: %w", err)
	}
	data, err := s.definer().Define(text, domain)
	if err != nil {
		return err
	}
	_, err = stdout.Write(data)
	return err
}
