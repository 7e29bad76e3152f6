// SPDX-License-Identifier: Apache-2.0

//go:build foreign

package netns_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// foreignSuite is a program with tests of another project, built by scripts/foreign.sh.
type foreignSuite struct {
	name string
	// dir is the folder below build-foreign that program and arguments are relative to.
	dir     string
	command []string
	// environment has further variables.
	environment []string
	// results returns the result of each test. dir is the folder in which the program ran.
	results func(output, dir string) (foreignResults, error)
}

// foreignResults are the results of tests by name: "ok", or the tests' own word for anything else.
type foreignResults map[string]string

// foreignForm is a way to run a suite: where, and with which variables.
type foreignForm struct {
	name        string
	where       *topology.Namespace
	environment []string
}

const (
	// foreignTimeout limits a run of a suite, which takes two minutes at most on an idle machine.
	foreignTimeout = 40 * time.Minute
	// foreignRounds is how often a suite runs in each form after a difference.
	foreignRounds = 5
)

// pythonFiles are files of CPython's tests that use sockets, descriptors, processes or signals.
var pythonFiles = strings.Fields(`
	test_socket test_asyncio test_ssl test_selectors test_socketserver test_select test_poll test_epoll test_asyncore test_asynchat
	test_smtplib test_smtpd test_ftplib test_poplib test_imaplib test_nntplib test_telnetlib test_httplib test_httpservers
	test_urllib2_localnet test_xmlrpc test_wsgiref test_logging test_signal test_fcntl test_ioctl test_os test_posix test_pty
	test_subprocess test_popen test_fileio test_file_eintr test_eintr test_fork1 test_wait3 test_wait4 test_thread
	test_multiprocessing_fork`)

// foreignSuites returns all suites. The files of tokio's tests are those that the script built.
func foreignSuites(t *testing.T, build string) []foreignSuite {
	t.Helper()
	var all []foreignSuite
	// Without the tests of vsock: on some virtual machines the first one waits forever.
	for _, file := range pythonFiles {
		all = append(all, foreignSuite{name: "python/" + file, dir: "python/usr/bin",
			command: []string{"python3.11", "-m", "test", "-u", "network", "--ignore", "*VSOCK*", "--junit-xml", "results.xml", file}, results: junitResults})
	}
	all = append(all,
		foreignSuite{name: "libuv", dir: "libuv/build", command: []string{"uv_run_tests"},
			environment: []string{"UV_RUN_AS_ROOT=1", "UV_TEST_TIMEOUT_MULTIPLIER=10"}, results: lineResults(`(?m)^(?P<word>ok|not ok) \d+ - (?P<name>\S+)(?P<skip> # SKIP)?`)},
		foreignSuite{name: "libevent", dir: "libevent/build/bin", command: []string{"regress"},
			results: lineResults(`(?m)^(?P<name>\w+/\S+): (?:\[forking\] )?(?P<word>OK|SKIPPED|DISABLED)?`)})
	tokio, err := filepath.Glob(filepath.Join(build, "tokio", "*_*"))
	must(t, err)
	for _, file := range append(tokio, filepath.Join(build, "tokio", "udp")) {
		all = append(all, foreignSuite{name: "tokio/" + filepath.Base(file), dir: "tokio",
			command: []string{filepath.Base(file), "--test-threads=1"}, results: lineResults(`(?m)^test (?P<name>\S+) \.\.\. (?P<word>\w+)`)})
	}
	return all
}

// junitResults reads the file that CPython's test runner writes. A subtest has the name of its test.
func junitResults(_, dir string) (foreignResults, error) {
	text, err := os.ReadFile(filepath.Join(dir, "results.xml"))
	if err != nil {
		return nil, err
	}
	var report struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Skipped *struct{} `xml:"skipped"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	results := foreignResults{}
	for _, test := range report.Cases {
		word := "ok"
		switch {
		case test.Error != nil, test.Failure != nil:
			word = "failed"
		case test.Skipped != nil:
			word = "skipped"
		}
		if earlier := results[test.Name]; earlier == "" || earlier == "ok" {
			results[test.Name] = word
		}
	}
	return results, nil
}

// lineResults returns a function that reads a line for each test, with a name and a word.
func lineResults(pattern string) func(output, dir string) (foreignResults, error) {
	line := regexp.MustCompile(pattern)
	return func(output, _ string) (foreignResults, error) {
		var results foreignResults
		for _, match := range line.FindAllStringSubmatch(output, -1) {
			word := strings.ToLower(match[line.SubexpIndex("word")])
			if skip := line.SubexpIndex("skip"); skip >= 0 && match[skip] != "" {
				word = "skipped"
			}
			if results == nil {
				results = foreignResults{}
			}
			results[match[line.SubexpIndex("name")]] = word
		}
		return results, nil
	}
}

// comparison has the ways to run a suite.
type comparison struct {
	// build is scripts/foreign.sh's folder, out the one of the outputs.
	build, out string
	plain      foreignForm
	// preloaded are the forms with libktsn.
	preloaded []foreignForm
}

// outVariable is the folder of the outputs, in the virtual machine of TestForeignKernel.
const outVariable = "KTSN_FOREIGN_OUT"

// newComparison compares in one namespace, in which there is no ktsnd.
func newComparison(t *testing.T, where *topology.Namespace) *comparison {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	setZero(t, where, "ipv6/conf/lo/disable_ipv6")
	c := &comparison{build: filepath.Join(root, "build-foreign"), out: os.Getenv(outVariable), plain: foreignForm{name: "without libktsn", where: where}}
	if c.out == "" {
		c.out = filepath.Join(root, "out/foreign")
	}
	must(t, os.MkdirAll(c.out, 0o755))
	c.preloaded = []foreignForm{{"with libktsn and without ktsnd", where, []string{"LD_PRELOAD=" + publicCopy(t, "libktsn.so")}}}
	return c
}

// run runs a suite once in a PID namespace of its own, so that nothing of it remains. The shell is process 1, for which
// signals have other defaults. A run that does not end has the results until then.
func (c *comparison) run(t *testing.T, suite *foreignSuite, form *foreignForm, round int) foreignResults {
	t.Helper()
	dir := publicDir(t)
	arguments := append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", `"$@"; exit $?`, "sh"},
		append([]string{filepath.Join(c.build, suite.dir, suite.command[0])}, suite.command[1:]...)...)
	command := exec.Command("unshare", arguments...)
	command.Dir = dir
	// CPython names folders by its process number, which is the same in other namespaces.
	command.Env = append(append(os.Environ(), "TMPDIR="+publicDir(t)), append(suite.environment, form.environment...)...)
	log, err := os.Create(filepath.Join(c.out, strings.NewReplacer("/", "-", " ", "-").Replace(fmt.Sprintf("%s %s %d", suite.name, form.name, round))))
	must(t, err)
	defer log.Close()
	command.Stdout = log
	running, err := process.Start(form.where, suite.name, command)
	must(t, err)
	end := "ok"
	select {
	case <-running.Done():
		if running.Wait() != nil {
			end = "failed"
		}
	case <-time.After(foreignTimeout):
		end = "did not end"
		_ = syscall.Kill(running.PID(), syscall.SIGKILL)
		<-running.Done()
	}
	_, err = log.WriteString("\n" + running.Stderr())
	must(t, err)
	output, err := os.ReadFile(log.Name())
	must(t, err)
	results, err := suite.results(string(output), dir)
	if err != nil || results == nil {
		t.Errorf("%s, %s: no results: %v; see %s", suite.name, form.name, err, log.Name())
		return foreignResults{}
	}
	results["the program's end"] = end
	return results
}

// differing returns the names of tests with different results.
func differing(reference, other foreignResults) []string {
	var names []string
	all := maps.Clone(reference)
	maps.Copy(all, other)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if reference[name] != other[name] {
			names = append(names, name)
		}
	}
	return names
}

// compare runs a suite without libktsn and in each form with it. A test whose result differs is repeated: it fails if its
// result is always the same without libktsn, and mostly another one with it. It returns a line of the table.
func (c *comparison) compare(t *testing.T, suite *foreignSuite) string {
	t.Helper()
	plain := []foreignResults{c.run(t, suite, &c.plain, 0)}
	var unstable []string
	for _, form := range c.preloaded {
		preloaded := []foreignResults{c.run(t, suite, &form, 0)}
		suspects := differing(plain[0], preloaded[0])
		for round := 1; len(suspects) > 0 && round < foreignRounds; round++ {
			if len(plain) == round {
				plain = append(plain, c.run(t, suite, &c.plain, round))
			}
			preloaded = append(preloaded, c.run(t, suite, &form, round))
		}
		for _, name := range suspects {
			differs, stable := 0, true
			var without, with []string
			for round, results := range preloaded {
				without, with = append(without, plain[round][name]), append(with, results[name])
				stable = stable && plain[round][name] == plain[0][name]
				if results[name] != plain[0][name] {
					differs++
				}
			}
			line := fmt.Sprintf("%s: without libktsn %q, %s %q", name, without, form.name, with)
			if stable && differs > foreignRounds/2 {
				t.Error(line)
			} else {
				unstable = append(unstable, "\nunstable: "+line)
			}
		}
	}
	count := map[string]int{}
	for _, word := range plain[0] {
		count[word]++
	}
	return fmt.Sprintf("%s: %d results, %d ok%s", suite.name, len(plain[0]), count["ok"], strings.Join(unstable, ""))
}

// compareAll compares the selected suites, and writes the table.
func (c *comparison) compareAll(t *testing.T, suites []foreignSuite) {
	t.Helper()
	only := regexp.MustCompile(os.Getenv(onlyVariable))
	for _, suite := range suites {
		if !only.MatchString(suite.name) {
			continue
		}
		t.Run(suite.name, func(t *testing.T) {
			line := c.compare(t, &suite)
			t.Log(line)
			must(t, appendLine(os.Getenv(tableVariable), line))
		})
	}
}

// onlyVariable is a regular expression of the suites to run.
const onlyVariable = "FOREIGN_RUN"

// tableVariable is the file with a line for each suite, if one is wanted.
const tableVariable = "KTSN_FOREIGN_TABLE"

func appendLine(name, line string) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}

// TestForeign runs other projects' tests with libktsn: each result is the same as without.
func TestForeign(t *testing.T) {
	lab := newLab(t)
	lab.sideA().join(t, rings.Endpoint{Rings: true})
	_, client := lab.startDaemon(t)
	lab.receiving(t, client)
	c := newComparison(t, lab.PodA)
	c.preloaded = append(c.preloaded, foreignForm{"with libktsn and rings", lab.PodA,
		append(slices.Clone(c.preloaded[0].environment), "KTSN_SOCKET="+lab.socket, "KTSN_RECEIVE=ring")})
	c.compareAll(t, foreignSuites(t, c.build))
	if received := receivedOf(t, client); received.Kernel == 0 && os.Getenv(onlyVariable) == "" {
		t.Errorf("no socket had a ring: %+v", received)
	}
}

// TestForeignKernel runs the kernel's self-tests in a virtual machine, whose kernel has fq, etf, netem and ifb. The machine
// runs this test again. They make namespaces of their own, which no ktsnd serves.
func TestForeignKernel(t *testing.T) {
	if os.Getenv(outVariable) != "" {
		var suites []foreignSuite
		for _, name := range []string{"so_txtime", "rxtimestamp", "txtimestamp"} {
			suites = append(suites, foreignSuite{name: "kernel/" + name, dir: "selftests/net", command: []string{"run", name}, results: ended})
		}
		newComparison(t, newNamespace(t, "ktsn-foreign")).compareAll(t, suites)
		return
	}
	testlab.Root(t)
	if only := os.Getenv(onlyVariable); !regexp.MustCompile(only).MatchString("kernel/") && !strings.HasPrefix(only, "kernel") {
		return
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	tests, err := os.Executable()
	must(t, err)
	machine := guestmachine.Machine{
		Base: guestmachine.Kernel(t, root), First: testlab.Program(t, "ktsn-test-first"), Out: filepath.Join(root, "out/foreign"), Processors: 2, MemoryMiB: 2048,
		Shown: []string{root, filepath.Dir(tests), testlab.BinDir(t)}, QEMU: guestmachine.QEMU(t, root),
	}
	must(t, os.MkdirAll(machine.Out, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 4*foreignTimeout)
	defer cancel()
	status, err := machine.Run(ctx, guestmachine.Command{
		Dir: filepath.Join(root, "test/netns"), Arguments: []string{tests, "-test.v", "-test.run", "^TestForeignKernel$"},
		Environment: []string{outVariable + "=" + guestmachine.OutDir, tableVariable + "=" + filepath.Join(guestmachine.OutDir, "table.txt"),
			"KTSN_REQUIRE=1", "KTSN_BIN_DIR=" + testlab.BinDir(t), onlyVariable + "=" + os.Getenv(onlyVariable)},
	})
	must(t, err)
	guestmachine.Report(t, &machine, status)
}

// ended is for programs that are one test.
func ended(string, string) (foreignResults, error) { return foreignResults{}, nil }
