// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// Modes of the test's program, which is what an Inspector starts here.
const (
	modeInspect = "inspect"
	modeHoard   = "hoard"
	modeSpin    = "spin"
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case modeInspect:
		if err := Command(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case modeHoard, modeSpin:
		misbehave(os.Args[1])
	default:
		os.Exit(m.Run())
	}
}

// misbehave is what a look would be that a pod has got the better of.
func misbehave(mode string) {
	if err := setLimits(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var hoard [][]byte
	for {
		if mode == modeHoard {
			hoard = append(hoard, make([]byte, 1<<20))
			clear(hoard[len(hoard)-1])
		}
	}
}

// inspector is one whose processes are this program's.
func newInspector(t testing.TB, proc string) *Inspector {
	t.Helper()
	if withRaceDetector() {
		t.Skip("the race detector takes more memory than a process that looks at programs may have")
	}
	return &Inspector{Program: "/proc/self/exe", Arguments: []string{modeInspect}, Proc: proc, Timeout: 20 * time.Second}
}

// withRaceDetector tells whether the tests were built with it.
func withRaceDetector() bool {
	built, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

const (
	podCgroup  = "0::/kubepods/pod" + podUID + "/x\n"
	podPreload = "LD_PRELOAD=/run/ktsn/libktsn.so\x00"
)

func TestExcessiveInspectionIsGivenUp(t *testing.T) {
	t.Parallel() // it takes two seconds of a processor
	for _, mode := range []string{modeHoard, modeSpin} {
		t.Run(mode, func(t *testing.T) {
			i := newInspector(t, t.TempDir())
			i.Arguments = []string{mode}
			i.Timeout = time.Minute
			messages, err := i.Without(t.Context(), podUID)
			if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "it took too much memory or time") {
				t.Errorf("said %q, %v", messages, err)
			}
		})
	}
}

func TestProgramWithHugeSectionTable(t *testing.T) {
	path := build(t, "-static")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	testlab.Must(t, err)
	defer file.Close()
	// e_shoff, e_shnum, and the size in the first section, which counts where e_shnum is 0.
	for at, content := range map[int64][]byte{40: {0, 0, 16, 0, 0, 0, 0, 0}, 60: {0, 0}, 1<<20 + 32: {0, 0, 0, 4, 0, 0, 0, 0}} {
		if _, err := file.WriteAt(content, at); err != nil {
			t.Fatal(err)
		}
	}
	testlab.Must(t, file.Truncate(1<<20+4<<30))
	dir := t.TempDir()
	process(t, dir, 17, podCgroup, podPreload, "", path)
	messages, err := newInspector(t, dir).Without(t.Context(), podUID)
	if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "is linked statically") {
		t.Errorf("said %q, %v", messages, err)
	}
}

func TestHugeFilesAreReadInPart(t *testing.T) {
	program := build(t, "-static")
	huge := strings.Repeat("7f00-7f01 r-xp 0 0:1 1 /some/where\n", mappingsMax/30)
	for name, test := range map[string]struct {
		environment, maps string
		programs          int
	}{
		"mappings without an end":             {podPreload, huge, 0},
		"the library at the end of many":      {podPreload, huge[:mappingsMax/2] + libraryName, 0},
		"many without it":                     {podPreload, huge[:mappingsMax/2], 1},
		"across two reads":                    {podPreload, strings.Repeat("x", readAtOnceBytes-3) + libraryName, 0},
		"an environment without an end":       {strings.Repeat("A=1\x00", environmentMax), "", 0},
		"a preload beyond what is read of it": {strings.Repeat("A=1\x00", environmentMax/4) + podPreload, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			process(t, dir, 17, podCgroup, test.environment, test.maps, program)
			if messages, err := newInspector(t, dir).Without(t.Context(), podUID); err != nil || len(messages) != test.programs {
				t.Errorf("said %q, %v", messages, err)
			}
		})
	}
}

func TestProgramNameIsPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/true": "/usr/bin/true", "/a\nWarning: b": "/a?Warning: b", "/\x1b[31m": "/?[31m", "/\xff": "/?",
		strings.Repeat("é", 2*nameMax): strings.Repeat("é", nameMax) + "…",
	} {
		if got := printable(name, nameMax); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A file of a FUSE file system whose server does not answer: what waits for it cannot be killed.
func TestSilentFile(t *testing.T) {
	t.Parallel() // it waits
	silent := testlab.MountSilent(t)
	silent.Unanswered.Store(testlab.FuseOpen)
	dir := t.TempDir()
	process(t, dir, 17, podCgroup, podPreload, "", filepath.Join(silent.Dir, "program"))
	i := newInspector(t, dir)
	i.Timeout = time.Second
	for round := range hangingMax {
		began := time.Now()
		messages, err := i.Without(t.Context(), podUID)
		if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "have loaded libktsn.so: the inspection was given up") {
			t.Fatalf("round %d: said %q, %v", round, messages, err)
		}
		if took := time.Since(began); took > i.Timeout+killedWithin+5*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if hanging := i.running.Load(); hanging != hangingMax {
		t.Errorf("%d processes hang, want %d: the file answered", hanging, hangingMax)
	}
	if messages, err := i.Without(t.Context(), podUID); err == nil || !strings.Contains(err.Error(), "4 inspecting processes do not end") {
		t.Errorf("said %q, %v", messages, err)
	}
	silent.End()
	deadline := time.Now().Add(10 * time.Second)
	for i.running.Load() > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	// The file system has gone, and with it the program.
	if messages, err := i.Without(t.Context(), podUID); err != nil || len(messages) > 0 {
		t.Errorf("said %q, %v", messages, err)
	}
}

// mapsItsEnvironment maps a file over a page of its own environment.
const mapsItsEnvironment = `
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
	uintptr_t page = ((uintptr_t)environ[0] + 8191) & ~4095UL;
	int fd = open(argv[1], O_RDONLY);
	if (argc != 2 || fd < 0 || mmap((void *)page, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		return 1;
	write(1, "x", 1);
	return pause();
}
`

func TestSilentMappedMemory(t *testing.T) {
	t.Parallel() // it waits
	silent := testlab.MountSilent(t)
	silent.Unanswered.Store(testlab.FuseRead)
	mapping := exec.CommandContext(t.Context(), buildSource(t, mapsItsEnvironment, "-static"), filepath.Join(silent.Dir, "memory"))
	mapping.Env = []string{"LARGE=" + strings.Repeat("x", 64<<10)}
	ready, err := mapping.StdoutPipe()
	if err == nil {
		err = mapping.Start()
	}
	testlab.Must(t, err)
	t.Cleanup(func() {
		silent.End()
		_ = mapping.Process.Kill() // it may have ended
		_ = mapping.Wait()
	})
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		t.Fatalf("the program does not map its environment: %v", err)
	}
	dir := t.TempDir()
	process(t, dir, 17, podCgroup, podPreload, "", mapping.Path)
	environment := filepath.Join(dir, "17", "environ")
	testlab.Must(t, errors.Join(os.Remove(environment), os.Symlink(fmt.Sprintf("/proc/%d/environ", mapping.Process.Pid), environment)))
	i := newInspector(t, dir)
	// The kernel reads an environment from anonymous memory only (FOLL_ANON), so the pod hides it and holds up nothing.
	if messages, err := i.Without(t.Context(), podUID); err != nil || len(messages) > 0 || i.running.Load() > 0 {
		t.Errorf("said %q, %v, and %d processes hang", messages, err, i.running.Load())
	}
}

func TestSetLimits(t *testing.T) {
	virtual, data, err := memory()
	if err != nil || virtual < data || data < 1<<20 {
		t.Errorf("this process has %d and %d bytes, %v", virtual, data, err)
	}
	var have unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &have); err != nil || have.Max == cpuSeconds {
		t.Errorf("the agent itself is limited: %+v, %v", have, err)
	}
}

// BenchmarkWithout is what a look at a pod of one program costs, on this machine's /proc.
func BenchmarkWithout(b *testing.B) {
	i := newInspector(b, "/proc")
	for b.Loop() {
		if _, err := i.Without(b.Context(), podUID); err != nil {
			b.Fatal(err)
		}
	}
}
