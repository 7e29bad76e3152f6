// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/version"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitMachine is the status if this machine cannot run a cluster.
	exitMachine = 3
)

// usageError is an invalid command line.
type usageError struct{ error }

// shared has the options of all commands, and the output streams.
type shared struct {
	name, dir      string
	stdout, stderr io.Writer
}

func (s *shared) open() (*cluster.Cluster, error) { return cluster.Open(s.name, s.dir) }

// Main runs a command line, without the program's name, and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	root := newRoot(&shared{stdout: stdout, stderr: stderr})
	root.SetArgs(arguments)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "ktsn-cluster: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	if errors.Is(err, cluster.ErrMachine) {
		return exitMachine
	}
	return exitFailure
}

func newRoot(s *shared) *cobra.Command {
	root := &cobra.Command{
		Use:           "ktsn-cluster",
		Short:         "A real Kubernetes cluster on this machine, for tests",
		Long:          "ktsn-cluster runs a Kubernetes cluster whose nodes are containers of this machine. docs/contributing/test-cluster.md describes it.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Line("ktsn-cluster"),
		Args:          cobra.ArbitraryArgs,
		RunE:          onlySubcommands,
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` lists the options", err, command.CommandPath())}
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&s.name, "name", "ktsn", "name of the cluster; clusters of different names do not conflict")
	root.PersistentFlags().StringVar(&s.dir, "dir", cluster.DefaultDir, "folder for the files of all clusters")
	root.AddCommand(newUp(s), newDown(s), newStatus(s), newLoad(s), newKubeconfig(s), newLogs(s), newNode(s), newUsage(s), newBuild(s),
		newHub(s), newJoin(s), newUnjoin(s), newWAN(s))
	return root
}

// onlySubcommands runs a command that has subcommands: it prints its help.
func onlySubcommands(command *cobra.Command, arguments []string) error {
	if len(arguments) > 0 {
		return usageError{fmt.Errorf("%s has no command %q; `%s --help` lists them", command.CommandPath(), arguments[0], command.CommandPath())}
	}
	return command.Help()
}

func exactly(count int, what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) != count {
			return usageError{fmt.Errorf("%s takes %s; `%s --help` shows it", command.Name(), what, command.CommandPath())}
		}
		return nil
	}
}

// buildOptions are the folders of the source and of the cache.
type buildOptions struct{ repository, cache string }

func (o *buildOptions) add(command *cobra.Command) {
	command.Flags().StringVar(&o.repository, "repository", "", "root of the project's source (default: that of this program)")
	command.Flags().StringVar(&o.cache, "cache", "", "folder for what was built (default: ktsn-cluster in the user's cache folder)")
}

func (o *buildOptions) builder(stderr io.Writer) (*components.Builder, error) {
	if o.repository == "" {
		root, err := findRepository()
		if err != nil {
			return nil, err
		}
		o.repository = root
	}
	if o.cache == "" {
		folder, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache: %w; name one with --cache", err)
		}
		o.cache = filepath.Join(folder, "ktsn-cluster")
	}
	repository, err := filepath.Abs(o.repository)
	if err != nil {
		return nil, err
	}
	cache, err := filepath.Abs(o.cache)
	if err != nil {
		return nil, err
	}
	return &components.Builder{Repository: repository, Cache: cache, Stderr: io.Discard,
		Log: func(format string, arguments ...any) { fmt.Fprintf(stderr, format+"\n", arguments...) }}, nil
}

// findRepository searches the parent folders of this program and of the working folder.
func findRepository() (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the project's source: %w", err)
	}
	working, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the project's source: %w", err)
	}
	for _, begin := range []string{filepath.Dir(executable), working} {
		for dir := begin; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "components")); err == nil {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("neither %s nor %s is in the project's source; name its root with --repository", executable, working)
}

func newUp(s *shared) *cobra.Command {
	options := cluster.Options{}
	var build buildOptions
	var subnet string
	command := &cobra.Command{
		Use:   "up",
		Short: "Build what the cache lacks, start a cluster and wait until it is ready",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if subnet != "" {
				prefix, err := netip.ParsePrefix(subnet)
				if err != nil {
					return usageError{fmt.Errorf("--subnet: %q is no IPv4 prefix; give one such as 198.18.7.0/24", subnet)}
				}
				options.Subnet = prefix
			}
			builder, err := build.builder(s.stderr)
			if err != nil {
				return err
			}
			options.Name, options.Dir, options.Builder, options.Progress = s.name, s.dir, builder, s.stdout
			_, err = cluster.Up(command.Context(), options)
			return err
		},
	}
	build.add(command)
	command.Flags().IntVar(&options.Nodes, "nodes", 2, "how many; the first carries the control plane, too")
	command.Flags().StringVar(&subnet, "subnet", "", "of the nodes, an IPv4 prefix (default: follows from the name)")
	command.Flags().IntSliceVar(&options.RealtimeBudgets, "realtime", []int{200_000},
		"microseconds of each second that a node's real-time threads may use, where the kernel divides them among cgroups; of several "+
			"numbers the first is the first node's, and the last that of all that are left")
	command.Flags().DurationVar(&options.Timeout, "timeout", 5*time.Minute, "after which a start has failed, without the building")
	return command
}

func newBuild(s *shared) *cobra.Command {
	var build buildOptions
	command := &cobra.Command{
		Use:   "build",
		Short: "Build the parts of a cluster, start nothing, and print the folders of the programs",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			builder, err := build.builder(s.stderr)
			if err != nil {
				return err
			}
			built, err := builder.Build(command.Context())
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(built.Programs)) {
				fmt.Fprintf(s.stdout, "%s\t%s\n", name, built.Programs[name])
			}
			return nil
		},
	}
	build.add(command)
	return command
}

func newDown(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove a cluster, or the traces of an interrupted start",
		Args:  exactly(0, "no arguments"),
		RunE:  func(command *cobra.Command, _ []string) error { return cluster.Down(command.Context(), s.name, s.dir) },
	}
}

func newStatus(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show nodes, services and pods",
		Args:  exactly(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			return c.Status(command.Context(), s.stdout)
		},
	}
}

func newLoad(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE.tar",
		Short: "Import an archive of images into all nodes",
		Args:  exactly(1, "the name of an archive"),
		RunE: func(command *cobra.Command, arguments []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			return c.Load(command.Context(), arguments[0], c.Nodes...)
		},
	}
}

func newKubeconfig(s *shared) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig",
		Args:  exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			c, err := s.open()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.stdout, c.Kubeconfig())
			return err
		},
	}
}
