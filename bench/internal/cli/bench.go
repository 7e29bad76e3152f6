// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernetsn/kubernetsn/bench/internal/clustertarget"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/dds"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/links"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/scale"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
	"github.com/kubernetsn/kubernetsn/bench/internal/guestrig"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstarget"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstestbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const assertHelp = "what must hold of the figures, such as 'direct.latency_ns.p99 <= 0.8 * kernel-vxlan-spin.latency_ns.p99'; can be repeated"

func newBench(env *commandline.Environment) *cobra.Command {
	registerExperiments()
	return commandline.Group("bench", "Run profiles, and report, compare and assess the results", newBenchRun(env), newBenchReport(env), newBenchCompare(env))
}

// registerExperiments makes all experiments known to profiles.
func registerExperiments() {
	engine.Register(dds.Name, dds.New)
	engine.Register(links.Name, links.New)
	engine.Register(scale.Name, scale.New)
	engine.Register(throughput.Name, throughput.New)
}

func benchRunLong() string {
	return `Measures what PROFILE asks for, on this machine, between two nodes made of network namespaces, and writes everything
to the folder given by --out: each run with all its messages as it is made, and the report at the end. PROFILE is a file
(docs/measurements/bench-profiles.md describes it) or one that is shipped: ` + strings.Join(engine.ShippedProfiles(), ", ") + `.
Needs root.

With --target guest it is between virtual machines on these nodes, which are emulated: without a schedule (guest-kernel), with
ktsnd's (guest-tap), and with the machine's own (guest-taprio).

With --kubeconfig it is between pods on two nodes of a cluster: through KuberneTSN (tsn), by the network that each pod has
(primary), and by that of the nodes (host), the last two also with talkers that are awake before they send (primary-spin,
host-spin). The pods are in a namespace that is made for them and removed. The estimated error of both
nodes' clocks is written beside each latency. A bench ends where it is larger than what is measured, or than max-clock-error of the
profile; --any-clock has it go on.

A bench that was interrupted goes on where it was when the same command is given again.
The exit status is 0 when the measurement is valid, lost or early messages of path direct included, and all
assertions hold, those of the profile and those given here.`
}

type benchRun struct {
	env        *commandline.Environment
	out        string
	binDir     string
	target     string
	cluster    clustertarget.Where
	format     string
	assertions []string
	quiet      bool
	// demo: the runs are kept with the target's folder only, and out gets every message instead.
	demo bool
}

func newBenchRun(env *commandline.Environment) *cobra.Command {
	b := &benchRun{env: env}
	command := &cobra.Command{
		Use:   "run PROFILE --out DIR",
		Short: "Measure what a profile asks for",
		Long:  benchRunLong(),
		Args:  commandline.OneArgument("PROFILE"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := b.checkFlags(command.Flags()); err != nil {
				return err
			}
			return b.run(command.Context(), arguments[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&b.out, "out", "", "folder for the runs and the report; new, or that of the same bench to go on")
	flags.StringVar(&b.binDir, "bin-dir", filepath.Dir(env.Executable), "folder of ktsnd, libktsn.so and tsnperf")
	flags.StringVar(&b.target, "target", engine.Namespaces.Name, "between what on this machine: namespaces (pods), or guest (virtual machines)")
	flags.StringVar(&b.cluster.Kubeconfig, "kubeconfig", "", "measure in the cluster that this file names")
	flags.StringVar(&b.cluster.Context, "context", "", "one of the file's contexts (default: its current one)")
	flags.StringVar(&b.cluster.Namespace, "namespace", "ktsn-bench", "namespace for the pods in the cluster; made and removed")
	flags.StringVar(&b.cluster.Network, "network", "kubernetsn-system/tsn", "network of path tsn: NAME of a TSNNetwork, or NAMESPACE/NAME of it and of where the chart is, or of a NetworkAttachmentDefinition")
	flags.StringVar(&b.cluster.Image, "image", "", "image with tsnperf, or nettools for experiments with other programs (default: the one beside ktsnd's or the operator's in the cluster)")
	flags.BoolVar(&b.cluster.AnyClock, "any-clock", false, "measure between nodes whose clocks are not good enough for it, too; the results are marked")
	flags.StringVar(&b.format, "plots", "svg", "format of the drawings as files: svg or png")
	flags.StringArrayVar(&b.assertions, "assert", nil, assertHelp)
	flags.BoolVar(&b.quiet, "quiet", false, "no progress")
	return command
}

// checkFlags rejects options of a cluster without one, and the other way round.
func (b *benchRun) checkFlags(flags *pflag.FlagSet) error {
	if b.cluster.Kubeconfig != "" {
		for name, why := range map[string]string{"bin-dir": "a cluster has its own programs", "target": "a cluster is a target of its own"} {
			if flags.Changed(name) {
				return commandline.Usage(fmt.Errorf("--%s and --kubeconfig; %s: leave one of them out", name, why))
			}
		}
		return nil
	}
	if err := commandline.CheckChoice("--target", b.target, engine.Namespaces.Name, engine.Guest.Name); err != nil {
		return err
	}
	for _, name := range []string{"context", "namespace", "network", "image", "any-clock", "kubeconfig"} {
		if flags.Changed(name) {
			return commandline.Usage(fmt.Errorf("--%s and no --kubeconfig; give the file that names the cluster", name))
		}
	}
	return nil
}

// means returns those of the requested target.
func (b *benchRun) means() *engine.Means {
	if b.cluster.Kubeconfig != "" {
		return engine.Cluster
	}
	if b.target == engine.Guest.Name {
		return engine.Guest
	}
	return engine.Namespaces
}

func (b *benchRun) run(ctx context.Context, name string) error {
	if b.out == "" {
		return commandline.Usage(errors.New("no --out; give the folder for the runs and the report"))
	}
	if err := errors.Join(commandline.CheckChoice("--plots", b.format, report.Formats...), checkAssertions(b.assertions)); err != nil {
		return err
	}
	profile, err := engine.ReadProfile(name, b.means())
	if err != nil {
		return err
	}
	return b.measure(ctx, profile)
}

func checkAssertions(assertions []string) error {
	for _, assertion := range assertions {
		if err := engine.CheckAssertion(assertion); err != nil {
			return commandline.Usage(err)
		}
	}
	return nil
}

// measure performs all missing runs, writes the report and judges. It leaves nothing but the folder.
func (b *benchRun) measure(ctx context.Context, profile *engine.Profile) (err error) {
	progress := b.env.Stderr
	if b.quiet {
		progress = io.Discard
	}
	target, err := b.open(ctx, profile, progress)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("the bench was stopped before it measured anything: %w", cause)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close(ctx)) }()
	for _, assertion := range slices.Concat(profile.Assert, b.assertions) {
		if err := engine.Preflight(profile, assertion); err != nil {
			return err
		}
	}
	host, err := target.Host()
	if err != nil {
		return err
	}
	dir := b.out
	if here, ok := target.(*netnstarget.Target); ok && b.demo {
		dir = filepath.Join(here.Dir(), "bench")
	}
	store, err := engine.OpenStore(dir, engine.NewManifest(profile, host, target.Environment()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	experimenting, err := engine.ForProfile(target, profile)
	if err != nil {
		return err
	}
	runner := &engine.Runner{Store: store, Target: experimenting, Now: time.Now,
		Progress: engine.NewProgress(progress, terminalColumns(progress), time.Now)}
	if err := runner.Perform(ctx, engine.Plan(profile)); err != nil {
		return b.interrupted(ctx, err)
	}
	return b.conclude(store)
}

// open opens the target, after removing leftovers of a killed bench.
func (b *benchRun) open(ctx context.Context, profile *engine.Profile, progress io.Writer) (engine.Target, error) {
	if profile.OnTestbed() {
		return b.openTestbed(ctx, profile, progress)
	}
	if profile.Target == engine.Cluster.Name {
		target, err := clustertarget.Open(ctx, b.cluster, profile, func(message string) { fmt.Fprintln(progress, message) })
		if err != nil {
			return nil, err
		}
		return target, nil
	}
	if err := netnstarget.Iperf3Missing(profile); err != nil {
		return nil, err
	}
	programs, err := netnstarget.FindPrograms(b.binDir, slices.ContainsFunc(profile.Paths, results.ThroughKtsnd))
	if err != nil {
		return nil, err
	}
	if profile.InGuests() {
		if programs.Guests, err = guestrig.Find(b.binDir); err != nil {
			return nil, err
		}
	}
	if os.Geteuid() == 0 {
		if err := topology.Sweep(progress); err != nil {
			return nil, err
		}
		if err := leaveOVS(ctx, profile); err != nil {
			return nil, err
		}
		if profile.VLAN != 0 {
			if missing := netnstarget.VLANMissing(ctx); missing != nil {
				profile.LeaveVLAN(missing.Error())
			}
		}
	}
	target, err := netnstarget.Open(ctx, programs, profile)
	if err != nil {
		return nil, err
	}
	return target, nil
}

// openTestbed opens the target of an experiment with its own paths.
func (b *benchRun) openTestbed(ctx context.Context, profile *engine.Profile, progress io.Writer) (engine.Target, error) {
	if profile.Target == engine.Cluster.Name {
		target, err := clustertarget.OpenTools(ctx, b.cluster, profile, func(message string) { fmt.Fprintln(progress, message) })
		if err != nil {
			return nil, err
		}
		return target, nil
	}
	if os.Geteuid() == 0 {
		if err := topology.Sweep(progress); err != nil {
			return nil, err
		}
	}
	target, err := netnstestbed.Open(profile, b.binDir)
	if err != nil {
		return nil, err
	}
	return target, nil
}

// leaveOVS leaves path ovs out if it is not available, unless nothing else was requested.
func leaveOVS(ctx context.Context, profile *engine.Profile) error {
	if !slices.Contains(profile.Paths, results.PathOVS) {
		return nil
	}
	missing := netnstarget.OVSMissing(ctx)
	if missing == nil {
		return nil
	}
	profile.LeaveOut(results.PathOVS, missing.Error())
	if len(engine.Plan(profile)) == 0 {
		return fmt.Errorf("nothing of the profile can be measured: path %s: %w", results.PathOVS, missing)
	}
	return nil
}

// interrupted explains how to continue an interrupted bench.
func (b *benchRun) interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the bench was stopped before its end; what was measured is in %s: the same command goes on with it, and "+
			"`ktsn bench report %s` shows it: %w", b.out, b.out, cause)
	}
	return err
}

// conclude writes the report and judges.
func (b *benchRun) conclude(store *engine.Store) error {
	measurement, err := reported(store, append(slices.Clone(store.Manifest.Profile.Assert), b.assertions...))
	if err != nil {
		return err
	}
	if b.demo {
		measurement.Summary.Profile = nil // nobody asked for one
	}
	if err := writeReport(b.env, b.out, b.format, measurement); err != nil {
		return err
	}
	if b.demo {
		if err := results.WriteFile(filepath.Join(b.out, messagesName), store.WriteMessages); err != nil {
			return fmt.Errorf("write %s: %w", messagesName, err)
		}
	}
	return judge(measurement.Summary)
}

// writeReport writes the report of some benches, and prints its tables.
func writeReport(env *commandline.Environment, out, format string, measurements ...*report.Measurement) error {
	if err := report.WriteFolder(out, format, measurements...); err != nil {
		return err
	}
	for _, measurement := range measurements {
		if err := report.WriteTables(env.Stdout, measurement.Summary); err != nil {
			return err
		}
	}
	fmt.Fprintf(env.Stdout, "\nTo look at: %s\n", filepath.Join(out, report.PageName))
	return nil
}

// reported computes the summary of a store.
func reported(store *engine.Store, assertions []string) (*report.Measurement, error) {
	summary, series, err := engine.Collect(store)
	if err != nil {
		return nil, err
	}
	facts, err := engine.FactsOf(summary)
	if err != nil {
		return nil, err
	}
	summary.Assertions = assertAll(facts, assertions)
	return &report.Measurement{Summary: summary, Series: series}, nil
}

// assertAll evaluates the assertions. An assertion about something that was not measured fails for that reason; the
// report of the rest is still useful.
func assertAll(facts *engine.Facts, assertions []string) []results.Assertion {
	all := []results.Assertion{}
	for _, expression := range assertions {
		assertion, err := facts.Assert(expression)
		if err != nil {
			assertion.Holds = false
			assertion.Detail = strings.TrimPrefix(err.Error(), fmt.Sprintf("%q: ", expression))
		}
		all = append(all, assertion)
	}
	return all
}

// judge returns the exit status for invalid or failed measurements and assertions.
func judge(summary *results.Summary) error {
	var err error
	if count := len(summary.Problems); count > 0 {
		err = fmt.Errorf("the measurement shows %d problems, the first being: %s", count, summary.Problems[0])
	}
	return errors.Join(err, refute(summary.Assertions))
}

func refute(assertions []results.Assertion) error {
	for _, assertion := range assertions {
		if !assertion.Holds {
			return fmt.Errorf("%w: %s: %s", engine.ErrAssertion, assertion.Expression, assertion.Detail)
		}
	}
	return nil
}

func newBenchReport(env *commandline.Environment) *cobra.Command {
	var out, format string
	var assertions []string
	command := &cobra.Command{
		Use:   "report DIR...",
		Short: "Write the report of one bench, or one page for several",
		Long: "Writes the report of what was measured into each DIR, complete or not: report.html, which needs nothing else,\n" +
			"tables.md, summary.json, figures.csv, ratios.csv, and plots/ with the drawings and their points.\n" +
			"Of several DIRs it is one page, and --out says where.",
		Args: commandline.SeveralArguments("DIR"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			if err := errors.Join(commandline.CheckChoice("--plots", format, report.Formats...), checkAssertions(assertions)); err != nil {
				return err
			}
			if out == "" && len(arguments) > 1 {
				return commandline.Usage(errors.New("several folders and no --out; give the folder for their report"))
			}
			if out == "" {
				out = arguments[0]
			}
			return reportBenches(env, arguments, out, format, assertions)
		},
	}
	flags := command.Flags()
	flags.StringVar(&out, "out", "", "folder for the report, that of the bench if there is one only")
	flags.StringVar(&format, "plots", "svg", "format of the drawings as files: svg or png")
	flags.StringArrayVar(&assertions, "assert", nil, assertHelp)
	return command
}

func reportBenches(env *commandline.Environment, dirs []string, out, format string, assertions []string) error {
	var all []*report.Measurement
	var verdict error
	for _, dir := range dirs {
		store, err := engine.ReadStore(dir)
		if err != nil {
			return err
		}
		measurement, err := reported(store, append(slices.Clone(store.Manifest.Profile.Assert), assertions...))
		if err != nil {
			return err
		}
		if len(dirs) > 1 {
			measurement.Name = filepath.Base(dir)
		}
		all = append(all, measurement)
		verdict = errors.Join(verdict, refute(measurement.Summary.Assertions))
	}
	return errors.Join(writeReport(env, out, format, all...), verdict)
}

func newBenchCompare(env *commandline.Environment) *cobra.Command {
	var assertions []string
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two benches",
		Long: "Compares the latencies, or the figures of an experiment, that both folders A and B have: B ÷ A, and the range in which\n" +
			"that ratio lies with a confidence of 95 %. That they have nothing in common is an error. In assertions the figures of A are below a, those of B below b, such as\n" +
			"'b.direct.latency_ns.p50 <= 1.1 * a.direct.latency_ns.p50'.",
		Args: commandline.TwoArguments("A", "B"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			if err := checkAssertions(assertions); err != nil {
				return err
			}
			return compareBenches(env, arguments[0], arguments[1], assertions)
		},
	}
	command.Flags().StringArrayVar(&assertions, "assert", nil, "what must hold of the figures, such as 'b.direct.lost <= a.direct.lost'; can be repeated")
	return command
}

func compareBenches(env *commandline.Environment, a, b string, assertions []string) error {
	first, err := engine.ReadStore(a)
	if err != nil {
		return err
	}
	other, err := engine.ReadStore(b)
	if err != nil {
		return err
	}
	comparison, err := engine.Compare(first, other)
	if err != nil {
		return err
	}
	if err := printComparison(env.Stdout, comparison); err != nil {
		return err
	}
	judged := assertAll(comparison.Facts, assertions)
	printAssertions(env.Stdout, judged)
	return refute(judged)
}
