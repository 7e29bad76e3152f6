// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const podUID = "0e8a53a2-6d1b-4b9e-a3d7-000000000001"

// process makes the entry of a process whose program is a file.
func process(t *testing.T, dir string, pid int, cgroup, environment, maps, program string) {
	t.Helper()
	folder := filepath.Join(dir, strconv.Itoa(pid))
	testlab.Must(t, os.Mkdir(folder, 0o700))
	for name, text := range map[string]string{"cgroup": cgroup, "environ": environment, "maps": maps} {
		testlab.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	testlab.Must(t, os.Symlink(program, filepath.Join(folder, "exe")))
}

// build makes a small static program that is not Go's.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	return buildSource(t, "int main(void) { return 0; }\n", flags...)
}

func buildSource(t *testing.T, text string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	testlab.Must(t, os.WriteFile(source, []byte(text), 0o600))
	messages, err := exec.CommandContext(t.Context(), "cc", append(flags, "-o", program, source)...).CombinedOutput()
	if err != nil {
		t.Skipf("no C compiler: %v: %s", err, messages)
	}
	return program
}

func TestProgramsWithoutLibrary(t *testing.T) {
	// This test's own program is Go's, and static where cgo is off.
	self, err := os.Executable()
	testlab.Must(t, err)
	cstatic, cdynamic := build(t, "-static"), build(t)
	cgroup := "4:cpu:/kubepods/besteffort/pod" + podUID + "/0123\n"
	systemd := "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice/x\n"
	const preload, loaded = "A=1\x00LD_PRELOAD=/run/ktsn/libktsn.so\x00", "7f00-7f01 r-xp 0 0:1 1 /run/ktsn/libktsn.so\n"
	for name, test := range map[string]struct {
		cgroup, environment, maps, program, want string
	}{
		"a static one":                   {cgroup, preload, "", cstatic, "is linked statically"},
		"a static one under systemd":     {systemd, preload, "", cstatic, "is linked statically"},
		"a dynamic one without it":       {cgroup, preload, "", cdynamic, "libktsn.so is not in it"},
		"not a dynamic one that has it":  {cgroup, preload, loaded, cdynamic, ""},
		"not one that does not want it":  {cgroup, "A=1\x00", "", cstatic, ""},
		"not one of another pod":         {"4:cpu:/kubepods/podother/x\n", preload, "", cstatic, ""},
		"not one that is none of a pod":  {"0::/user.slice\n", preload, "", cstatic, ""},
		"not one that preloads another":  {cgroup, "LD_PRELOAD=/lib/other.so\x00", "", cstatic, ""},
		"one of Go's, whatever its kind": {cgroup, preload, "", self, "Program " + self},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			process(t, dir, 17, test.cgroup, test.environment, test.maps, test.program)
			// A process that ends during the inspection.
			testlab.Must(t, os.Mkdir(filepath.Join(dir, "18"), 0o700))
			testlab.Must(t, os.WriteFile(filepath.Join(dir, "18", "cgroup"), []byte(test.cgroup), 0o600))
			got, err := newInspector(t, dir).Without(t.Context(), podUID)
			testlab.Must(t, err)
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("said %q, want %q", got, test.want)
			}
		})
	}
}

func TestFailuresAreReported(t *testing.T) {
	if _, err := newInspector(t, t.TempDir()).Without(t.Context(), podUID); err == nil || !strings.Contains(err.Error(), "the node's /proc must be mounted there") {
		t.Errorf("of an empty folder: %v", err)
	}
	dir := t.TempDir()
	const preload = "LD_PRELOAD=/run/ktsn/libktsn.so\x00"
	cgroup := "0::/kubepods/pod" + podUID + "/x\n"
	noProgram := filepath.Join(dir, "text")
	testlab.Must(t, os.WriteFile(noProgram, []byte("no program"), 0o600))
	process(t, dir, 17, cgroup, preload, "", noProgram)
	process(t, dir, 18, cgroup, preload, "", build(t, "-static"))
	got, err := newInspector(t, dir).Without(t.Context(), podUID)
	if err == nil || !strings.Contains(err.Error(), "process 17: ") || len(got) != 1 {
		t.Errorf("said %q, %v", got, err)
	}
}
