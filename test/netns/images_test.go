// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// oldestGlibc is the version of Debian 9.
const oldestGlibc = 24

// muslLoader is the C library of musl programs.
const muslLoader = "/lib/ld-musl-x86_64.so.1"

// neededSymbols returns the symbols that libktsn imports from the C library.
func neededSymbols(t *testing.T) []elf.Symbol {
	t.Helper()
	file, err := elf.Open(program(t, "libktsn.so"))
	must(t, err)
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) != 0 {
		t.Errorf("it names libraries: %q, %v", libraries, err)
	}
	symbols, err := file.DynamicSymbols()
	must(t, err)
	symbols = slices.DeleteFunc(symbols, func(symbol elf.Symbol) bool {
		return symbol.Section != elf.SHN_UNDEF || elf.ST_BIND(symbol.Info) == elf.STB_WEAK
	})
	if len(symbols) == 0 {
		t.Fatal("it needs nothing at all; the test proves nothing")
	}
	return symbols
}

// definedSymbols returns the functions and variables of a library with the versions of each.
func definedSymbols(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		testlab.Missing(t, path+" is missing; install musl-tools")
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	must(t, err)
	versions := map[string][]string{}
	for _, symbol := range symbols {
		if symbol.Section != elf.SHN_UNDEF {
			versions[symbol.Name] = append(versions[symbol.Name], symbol.Version)
		}
	}
	return versions
}

func TestLibraryNeedsOnlyMuslSymbols(t *testing.T) {
	content(t)
	musl := definedSymbols(t, muslLoader)
	for _, symbol := range neededSymbols(t) {
		if _, there := musl[symbol.Name]; !there {
			t.Errorf("musl has no %s", symbol.Name)
		}
	}
}

func TestLibraryNeedsOnlyOldGlibcSymbols(t *testing.T) {
	content(t)
	glibc := definedSymbols(t, "/lib/x86_64-linux-gnu/libc.so.6")
	for _, symbol := range neededSymbols(t) {
		if symbol.Version != "" {
			t.Errorf("%s is wanted in version %s", symbol.Name, symbol.Version)
		}
		if !slices.ContainsFunc(glibc[symbol.Name], oldEnough) {
			t.Errorf("glibc 2.%d has no %s, this one in %q", oldestGlibc, symbol.Name, glibc[symbol.Name])
		}
	}
}

// oldEnough reports whether Debian 9 has a symbol version such as GLIBC_2.2.5.
func oldEnough(version string) bool {
	minor, ok := strings.CutPrefix(version, "GLIBC_2.")
	if !ok {
		return false
	}
	minor, _, _ = strings.Cut(minor, ".")
	number, err := strconv.Atoi(minor)
	return err == nil && number <= oldestGlibc
}

func TestLibraryWithOtherPreloadedLibrary(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	_, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	turns := shape{name: "timed-and-untimed-in-turns", timed: 2, untimed: 2}
	programs := shapePrograms(t)
	options := []string{"-shared", "-fPIC", "-ldl"}
	counters := map[string]string{
		"glibc": compile(t, "gcc", "counter.so", "test_counter.c", options...),
		"musl":  compileWithMusl(t, "counter.so", "test_counter.c", options...),
	}
	library := publicCopy(t, "libktsn.so")
	for libc, program := range programs {
		for name, test := range map[string]struct {
			preload string
			// want are the calls that reach the other library: libktsn handles timed messages itself.
			want int
		}{
			"in front of libktsn": {counters[libc] + ":" + library, 4},
			"after libktsn":       {library + ":" + counters[libc], 2},
		} {
			t.Run(libc+", "+name, func(t *testing.T) {
				report := filepath.Join(t.TempDir(), "report")
				before := awaitSettled(t, client)
				command := shapeCommand(program, turns, "root", append(os.Environ(), "KTSN_SOCKET="+lab.socket,
					"LD_PRELOAD="+test.preload, "COUNTER_FILE="+report))
				if err := finish(t, start(t, lab.PodA, "application", command)); err != nil {
					t.Error(err)
				}
				checkServed(t, turns, receiver.take(t, 4, patience))
				checkCounted(t, turns, before, awaitSettled(t, client))
				text, err := os.ReadFile(report)
				if want := fmt.Sprintf("sendmsg %d\n", test.want); err != nil || string(text) != want {
					t.Errorf("it counted %q, want %q (%v)", text, want, err)
				}
			})
		}
	}
}

func TestKtsnRunWithBothCLibraries(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.addAddress(t)
	_, client := lab.startDaemon(t)
	receiver := lab.listenShaped(t)
	plain := shape{name: "plain", timed: 3}
	for libc, path := range shapePrograms(t) {
		t.Run(libc, func(t *testing.T) {
			before := awaitSettled(t, client)
			inner := shapeCommand(path, plain, "root", nil)
			command := exec.Command(program(t, "ktsn"), append([]string{"run", "--socket", lab.socket,
				"--lib", program(t, "libktsn.so"), "--"}, inner.Args...)...)
			if err := finish(t, start(t, lab.PodA, "ktsn run", command)); err != nil {
				t.Error(err)
			}
			checkServed(t, plain, receiver.take(t, 3, patience))
			checkCounted(t, plain, before, awaitSettled(t, client))
		})
	}
}

// TestPythonSocketsBehaveAsWithKernel runs sockets, poll, epoll and select of CPython, an independent program that
// makes its system calls through the C library.
func TestPythonSocketsBehaveAsWithKernel(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--strategy", "etf")
	listener := lab.listenForTexts(t)
	must(t, finish(t, start(t, lab.PodA, "python3", lab.script(t, "txtime.py"))))
	missed := int(awaitSettled(t, client).DropMissed) // by a ktsnd that gets no processor
	got, want := receivedTexts(t, listener), []string{"python-sooner", "python-later"}
	want = slices.DeleteFunc(want, func(text string) bool { return missed > 0 && !slices.Contains(got, text) })
	if !slices.Equal(got, want) || len(got)+missed != 2 {
		t.Errorf("arrived: %q, want %q; %d missed their times", got, want, missed)
	}
}
