// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const manFolder = root + "/docs/reference/man"

// help returns the help text of a built program.
func help(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	text, err := exec.Command(testlab.Program(t, program), append(arguments, "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", program, err)
	}
	return string(text)
}

var (
	// helpLine opens an option, or several, in a help text.
	helpLine = regexp.MustCompile(`(?m)^ +(--?[a-z][a-z0-9-]*(?:, --?[a-z][a-z0-9-]*)*)`)
	// helpDefault is C programs' way to name a default.
	helpDefault = regexp.MustCompile(`\(default:\s+([^)]*)\)`)
	// flagDefault is that of Go's package flag, in programs whose pages name all defaults.
	flagDefault  = regexp.MustCompile(`\(default:? ("[^"]*"|[^)"]*)\)`)
	flagPrograms = []string{"ktsn-agent", "ktsn-operator", "ktsn-ptp"}
	// pageOption is an option in a line of mdoc that has the macro Fl, which prints a dash of its own.
	pageOption = regexp.MustCompile(`(?:^|\s)(-?[a-z][a-z0-9-]*)(?:$|[\s.,])`)
	macro      = regexp.MustCompile(`(?m)^\.[A-Z][a-z] `)
	space      = regexp.MustCompile(`\s+`)
)

// helpOptions returns the text of each option.
func helpOptions(text string) map[string]string {
	options := map[string]string{}
	starts := helpLine.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		for name := range strings.SplitSeq(text[start[2]:start[3]], ", ") {
			options[name] = space.ReplaceAllString(text[start[3]:end], " ")
		}
	}
	return options
}

// section returns the part of a page below a heading, up to the next heading of the same or a higher level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, below, ok := strings.Cut(read(t, "docs/reference/man/"+page), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n.Sh ")
	below, _, _ = strings.Cut(below, "\n.Ss ")
	return below
}

// pageOptions returns the text of each option that a section introduces: in a list, else in running text.
func pageOptions(text string, lists bool) map[string]string {
	opening := ".Fl "
	if lists {
		opening = ".It Fl "
	}
	options := map[string]string{}
	var current []string
	for line := range strings.Lines(text) {
		if rest, opens := strings.CutPrefix(line, opening); opens {
			current = nil
			rest, _, _ = strings.Cut(rest, " Ar ")
			for _, match := range pageOption.FindAllStringSubmatch(strings.ReplaceAll(rest, " ", "  "), -1) {
				current = append(current, "-"+match[1])
			}
		} else if strings.HasPrefix(line, ".It ") || strings.HasPrefix(line, ".El") {
			current = nil
		}
		for _, name := range current {
			options[name] += line
		}
	}
	return options
}

func names(options ...map[string]string) []string {
	all := map[string]string{}
	for _, some := range options {
		maps.Copy(all, some)
	}
	return slices.Sorted(maps.Keys(all))
}

func TestPagesAndHelpKnowTheSameOptions(t *testing.T) {
	// The options that all commands share, without those of the program itself.
	common := pageOptions(section(t, "ktsn.1", ".Sh DESCRIPTION"), false)
	delete(common, "--version")
	switched := maps.Clone(common)
	maps.Copy(switched, pageOptions(section(t, "ktsn.1", ".Ss ktsn ovs"), true))
	federated := maps.Clone(common)
	maps.Copy(federated, pageOptions(section(t, "ktsn.1", ".Ss ktsn fed"), true))
	helps := map[string]string{"--help": "", "-h": ""}
	sidecar := pageOptions(section(t, "ktsn-kubevirt.8", ".Sh OPTIONS"), true)
	delete(sidecar, "-limit")
	for name, test := range map[string]struct {
		program, command string
		page, heading    string
		lists            bool
		extra            map[string]string
	}{
		"ktsnd":                     {"ktsnd", "", "ktsnd.8", ".Sh OPTIONS", true, nil},
		"ktsn-realtime":             {"ktsn-realtime", "", "ktsn-realtime.8", ".Sh OPTIONS", true, nil},
		"ktsn-wait":                 {"ktsn-wait", "", "ktsn-wait.8", ".Sh OPTIONS", true, nil},
		"ktsn-relay":                {"ktsn-relay", "", "ktsn-relay.8", ".Sh OPTIONS", true, nil},
		"ktsn-kubevirt":             {"ktsn-kubevirt", "", "ktsn-kubevirt.8", ".Sh OPTIONS", true, nil},
		"ktsn-federator":            {"ktsn-federator", "", "ktsn-federator.8", ".Sh OPTIONS", true, nil},
		"ktsn-agent":                {"ktsn-agent", "", "ktsn-agent.8", ".Sh OPTIONS", true, nil},
		"ktsn-agent remove":         {"ktsn-agent", "remove", "ktsn-agent.8", ".Ss ktsn-agent remove", true, nil},
		"ktsn-agent clean-node":     {"ktsn-agent", "clean-node", "ktsn-agent.8", ".Ss ktsn-agent clean-node", true, nil},
		"ktsn-operator":             {"ktsn-operator", "", "ktsn-operator.8", ".Sh OPTIONS", true, nil},
		"ktsn-operator remove":      {"ktsn-operator", "remove", "ktsn-operator.8", ".Ss ktsn-operator remove", true, nil},
		"ktsn-ptp":                  {"ktsn-ptp", "", "ktsn-ptp.8", ".Sh OPTIONS", true, nil},
		"ktsn-ptp probe":            {"ktsn-ptp", "probe", "ktsn-ptp.8", ".Ss ktsn-ptp probe", true, nil},
		"ktsn-kubevirt define":      {"ktsn-kubevirt", "define", "ktsn-kubevirt.8", ".Ss ktsn-kubevirt define", true, sidecar},
		"ktsn-guest run":            {"ktsn-guest", "run", "ktsn-guest.8", ".Ss ktsn-guest run", true, helps},
		"ktsn-guest status":         {"ktsn-guest", "status", "ktsn-guest.8", ".Ss ktsn-guest status", true, helps},
		"ktsn-guest detach":         {"ktsn-guest", "detach", "ktsn-guest.8", ".Ss ktsn-guest detach", true, helps},
		"ktsn-guest config":         {"ktsn-guest", "config", "ktsn-guest.8", ".Ss ktsn-guest config", true, helps},
		"ktsn vm attach":            {"ktsn", "vm attach", "ktsn.1", ".Ss ktsn vm attach", true, common},
		"ktsn vm detach":            {"ktsn", "vm detach", "ktsn.1", ".Ss ktsn vm detach", true, common},
		"ktsn vm list":              {"ktsn", "vm list", "ktsn.1", ".Ss ktsn vm list", true, common},
		"ktsn vm relay":             {"ktsn", "vm relay", "ktsn.1", ".Ss ktsn vm relay", true, common},
		"ktsn vm clock":             {"ktsn", "vm clock", "ktsn.1", ".Ss ktsn vm clock", true, common},
		"ktsn vm passthrough check": {"ktsn", "vm passthrough check", "ktsn.1", ".Ss ktsn vm passthrough check", true, common},
		"tsnperf":                   {"tsnperf", "", "tsnperf.1", ".Sh DESCRIPTION", false, nil},
		"tsnperf talker":            {"tsnperf", "talker", "tsnperf.1", ".Ss tsnperf talker", true, nil},
		"tsnperf listener":          {"tsnperf", "listener", "tsnperf.1", ".Ss tsnperf listener", true, nil},
		"ktsn":                      {"ktsn", "", "ktsn.1", ".Sh DESCRIPTION", false, nil},
		"ktsn-bench":                {"ktsn-bench", "", "ktsn-bench.1", ".Sh DESCRIPTION", false, nil},
		"ktsn demo":                 {"ktsn-bench", "demo", "ktsn-bench.1", ".Ss ktsn demo", true, common},
		"ktsn bench":                {"ktsn-bench", "bench", "ktsn-bench.1", ".Ss ktsn bench", true, common},
		"ktsn bench run":            {"ktsn-bench", "bench run", "ktsn-bench.1", ".Ss ktsn bench run", true, common},
		"ktsn bench report":         {"ktsn-bench", "bench report", "ktsn-bench.1", ".Ss ktsn bench report", true, common},
		"ktsn bench compare":        {"ktsn-bench", "bench compare", "ktsn-bench.1", ".Ss ktsn bench compare", true, common},
		"ktsn run":                  {"ktsn", "run", "ktsn.1", ".Ss ktsn run", true, common},
		"ktsn doctor":               {"ktsn", "doctor", "ktsn.1", ".Ss ktsn doctor", true, common},
		"ktsn fed join":             {"ktsn", "fed join", "ktsn.1", ".Ss ktsn fed join", true, federated},
		"ktsn fed enroll":           {"ktsn", "fed enroll", "ktsn.1", ".Ss ktsn fed enroll", true, federated},
		"ktsn fed rights":           {"ktsn", "fed rights", "ktsn.1", ".Ss ktsn fed rights", true, federated},
		"ktsn fed unjoin":           {"ktsn", "fed unjoin", "ktsn.1", ".Ss ktsn fed unjoin", true, federated},
		"ktsn fed clusters":         {"ktsn", "fed clusters", "ktsn.1", ".Ss ktsn fed clusters", true, federated},
		"ktsn fed deploy":           {"ktsn", "fed deploy", "ktsn.1", ".Ss ktsn fed deploy", true, federated},
		"ktsn fed move":             {"ktsn", "fed move", "ktsn.1", ".Ss ktsn fed move", true, federated},
		"ktsn fed delete":           {"ktsn", "fed delete", "ktsn.1", ".Ss ktsn fed delete", true, federated},
		"ktsn fed where":            {"ktsn", "fed where", "ktsn.1", ".Ss ktsn fed where", true, federated},
		"ktsn fed networks":         {"ktsn", "fed networks", "ktsn.1", ".Ss ktsn fed networks", true, federated},
		"ktsn fed events":           {"ktsn", "fed events", "ktsn.1", ".Ss ktsn fed events", true, federated},
		"ktsn fed watch":            {"ktsn", "fed watch", "ktsn.1", ".Ss ktsn fed watch", true, federated},
		"ktsn ovs setup":            {"ktsn", "ovs setup", "ktsn.1", ".Ss ktsn ovs setup", true, switched},
		"ktsn ovs status":           {"ktsn", "ovs status", "ktsn.1", ".Ss ktsn ovs status", true, switched},
		"ktsn ovs teardown":         {"ktsn", "ovs teardown", "ktsn.1", ".Ss ktsn ovs teardown", true, switched},
		"ktsn status":               {"ktsn", "status", "ktsn.1", ".Ss ktsn status", true, common},
		"ktsn schedule check":       {"ktsn", "schedule check", "ktsn.1", ".Ss ktsn schedule check", true, common},
		"ktsn schedule plan":        {"ktsn", "schedule plan", "ktsn.1", ".Ss ktsn schedule plan", true, common},
		"ktsn schedule set":         {"ktsn", "schedule set", "ktsn.1", ".Ss ktsn schedule set", true, common},
		"ktsn schedule get":         {"ktsn", "schedule get", "ktsn.1", ".Ss ktsn schedule get", true, common},
		"ktsn strategy set":         {"ktsn", "strategy set", "ktsn.1", ".Ss ktsn strategy set", true, common},
		"ktsn classes set":          {"ktsn", "classes set", "ktsn.1", ".Ss ktsn classes set", true, common},
		"ktsn classes get":          {"ktsn", "classes get", "ktsn.1", ".Ss ktsn classes get", true, common},
		"ktsn node":                 {"ktsn", "node", "ktsn.1", ".Ss ktsn node", true, common},
		"ktsn node peers":           {"ktsn", "node peers", "ktsn.1", ".Ss ktsn node peers", true, common},
		"ktsn node peers add":       {"ktsn", "node peers add", "ktsn.1", ".Ss ktsn node peers add", true, common},
		"ktsn node peers del":       {"ktsn", "node peers del", "ktsn.1", ".Ss ktsn node peers del", true, common},
		"ktsn node peers list":      {"ktsn", "node peers list", "ktsn.1", ".Ss ktsn node peers list", true, common},
		"ktsn node filter":          {"ktsn", "node filter", "ktsn.1", ".Ss ktsn node filter", true, common},
		"ktsn node restore":         {"ktsn", "node restore", "ktsn.1", ".Ss ktsn node restore", true, common},
		"ktsn node relay":           {"ktsn", "node relay", "ktsn.1", ".Ss ktsn node relay", true, common},
		"ktsn top":                  {"ktsn", "top", "ktsn.1", ".Ss ktsn top", true, common},
		"ktsn trace":                {"ktsn", "trace", "ktsn.1", ".Ss ktsn trace", true, common},
		"ktsn clock config":         {"ktsn", "clock config", "ktsn.1", ".Ss ktsn clock config", true, common},
		"ktsn-relay-vhost":          {"ktsn-relay-vhost", "", "ktsn-relay-vhost.8", ".Sh OPTIONS", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inHelp := helpOptions(help(t, test.program, strings.Fields(test.command)...))
			inPage := pageOptions(section(t, test.page, test.heading), test.lists)
			if got, want := names(inPage, test.extra), names(inHelp); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("the page has %q, --help has %q", got, want)
			}
			defaults := helpDefault
			if slices.Contains(flagPrograms, test.program) {
				defaults = flagDefault
			}
			compareDefaults(t, defaults, inHelp, inPage)
		})
	}
}

// TestShippedProfilesAreDescribed finds profiles that the manual page or docs/measurements/benchmarks.md lacks.
func TestShippedProfilesAreDescribed(t *testing.T) {
	_, list, ok := strings.Cut(help(t, "ktsn-bench", "bench", "run"), "one that is shipped: ")
	list, _, ends := strings.Cut(list, ".\n")
	if !ok || !ends {
		t.Fatal("--help of ktsn bench run does not list the profiles")
	}
	page := section(t, "ktsn-bench.1", ".Ss ktsn bench run")
	text := read(t, "docs/measurements/benchmarks.md")
	for name := range strings.SplitSeq(list, ", ") {
		if !strings.Contains(page, "Cm "+name+"\n") {
			t.Errorf("the page has no profile %s", name)
		}
		if !strings.Contains(text, "\n| `"+name+"` | ") {
			t.Errorf("docs/measurements/benchmarks.md has no profile %s", name)
		}
	}
}

// compareDefaults looks for each default of a help text in the page.
func compareDefaults(t *testing.T, defaults *regexp.Regexp, inHelp, inPage map[string]string) {
	t.Helper()
	for name, text := range inHelp {
		match := defaults.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		body := space.ReplaceAllString(macro.ReplaceAllString(inPage[name], ""), " ")
		if want := strings.Trim(match[1], `"`); !strings.Contains(body, "Default: "+want) {
			t.Errorf("%s: --help has the default %q, the page says %q", name, want, body)
		}
	}
}

// TestEveryCommandHasItsSection finds commands that the manual page lacks. Users run the commands of ktsn-bench as commands of
// ktsn, so both pages have them.
func TestEveryCommandHasItsSection(t *testing.T) {
	measuring := commands(t, "ktsn-bench")
	for _, command := range measuring {
		section(t, "ktsn-bench.1", ".Ss ktsn "+command)
	}
	for _, command := range commands(t, "ktsn") {
		if slices.Contains(measuring, command) {
			command = strings.Fields(command)[0]
		}
		section(t, "ktsn.1", ".Ss ktsn "+command)
	}
}

// TestSynopsisHasEveryCommand compares SYNOPSIS of ktsn.1 with the commands, in both directions.
func TestSynopsisHasEveryCommand(t *testing.T) {
	measuring := commands(t, "ktsn-bench")
	var want []string
	for _, command := range commands(t, "ktsn") {
		if slices.Contains(measuring, command) {
			command = strings.Fields(command)[0]
		}
		want = append(want, command)
		// A group can also be a command.
		if group, _, isGroup := strings.Cut(command, " "); isGroup && slices.Contains(groupsThatAct, group) {
			want = append(want, group)
		}
	}
	slices.Sort(want)
	if got, want := synopsis(t, "ktsn.1"), slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("SYNOPSIS has %q,\nwant %q", got, want)
	}
}

// groupsThatAct are commands with subcommands that do something themselves.
var groupsThatAct = []string{"clock"}

// synopsis returns the commands in SYNOPSIS: "ovs status | teardown" is two.
func synopsis(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for entry := range strings.SplitSeq(section(t, page, ".Sh SYNOPSIS"), ".Nm\n") {
		line, named := strings.CutPrefix(entry, ".Cm ")
		if !named {
			continue
		}
		line, _, _ = strings.Cut(line, "\n")
		first, others, _ := strings.Cut(line, " | ")
		all = append(all, first)
		group := first[:strings.LastIndex(first, " ")+1]
		for other := range strings.SplitSeq(others, " | ") {
			if other != "" {
				all = append(all, group+other)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// commands returns the commands of a program that have no subcommands, such as "status" and "schedule set".
func commands(t *testing.T, program string, group ...string) []string {
	t.Helper()
	_, list, ok := strings.Cut(help(t, program, group...), "Available Commands:\n")
	if !ok {
		return []string{strings.Join(group, " ")}
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var all []string
	for line := range strings.Lines(list) {
		if command := strings.Fields(line)[0]; command != "help" {
			all = append(all, commands(t, program, append(slices.Clone(group), command)...)...)
		}
	}
	return all
}

func TestPagesAreWellFormed(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		testlab.Missing(t, "mandoc is missing; install Debian's package mandoc")
	}
	pages, err := filepath.Glob(filepath.Join(manFolder, "*.[1-8]"))
	if err != nil || len(pages) < 4 {
		t.Fatalf("pages are %q, %v", pages, err)
	}
	for _, page := range pages {
		if output, err := exec.Command(mandoc, "-T", "lint", "-W", "warning", page).CombinedOutput(); err != nil || len(output) > 0 {
			t.Errorf("%v\n%s", err, output)
		}
	}
}
