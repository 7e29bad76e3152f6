// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	nobody = 65534
	// reachVariable makes the test binary say what Check says of the file it names.
	reachVariable = "KTSN_PRELOAD_REACH"
)

func TestMain(m *testing.M) {
	path := os.Getenv(reachVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := Check(path); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
	}
}

// ordinary is a program that can be reached.
const ordinary = "/bin/true"

// place copies a file into a folder that every user can enter.
func place(t *testing.T, from, name string) string {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, name, string(content))
}

func put(t *testing.T, name, content string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ktsn-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(path, []byte(content), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// compile compiles an empty program.
func compile(t *testing.T, options ...string) string {
	t.Helper()
	source := put(t, "main.c", "int main(void) { return 0; }\n")
	program := strings.TrimSuffix(source, ".c")
	output, err := exec.Command("gcc", append(options, "-o", program, source)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, output)
	}
	return program
}

// foreignProgram is an ordinary program that says of itself that it is another machine's.
func foreignProgram(t *testing.T) string {
	t.Helper()
	path := place(t, ordinary, "foreign")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const machineOffset = 18 // e_machine
	binary.NativeEndian.PutUint16(content[machineOffset:], uint16(elf.EM_S390))
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	static := compile(t, "-static")
	for name, test := range map[string]struct {
		path string
		// want is a part of the reason, empty when it can be reached.
		want string
	}{
		"an ordinary program":                     {ordinary, ""},
		"a program that was just compiled":        {compile(t), ""},
		"one that is not position independent":    {compile(t, "-no-pie"), ""},
		"a statically linked program":             {static, "linked statically"},
		"a static position-independent program":   {compile(t, "-static-pie"), "linked statically"},
		"a Go program":                            {os.Args[0], "Go program"},
		"a program of another machine":            {foreignProgram(t), "another machine (EM_S390"},
		"a script of an ordinary program":         {put(t, "script", "#!/bin/sh\nexit 0\n"), ""},
		"a script of a static program":            {put(t, "script", "#!"+static+"\n"), static + " is linked statically"},
		"one with spaces and an argument":         {put(t, "script", "#! \t"+static+" -x\n"), "linked statically"},
		"a script of a script":                    {put(t, "script", "#!"+put(t, "inner", "#!"+static+"\n")+"\n"), static},
		"one that env finds":                      {put(t, "script", "#!/usr/bin/env sh\n"), ""},
		"a static one that env finds":             {put(t, "script", "#!/usr/bin/env -S A=b "+static+" -x\n"), "statically"},
		"one that env does not find":              {put(t, "script", "#!/usr/bin/env nowhere-to-be-found\n"), ""},
		"a script without an interpreter":         {put(t, "script", "#!\n"), ""},
		"a script of what is not there":           {put(t, "script", "#!/nowhere/at/all\n"), ""},
		"a text that the shell would run":         {put(t, "text", "exit 0\n"), ""},
		"an empty file":                           {put(t, "empty", ""), ""},
		"the beginning of an ELF file":            {put(t, "cut", elfMagic+"\x02\x01\x01"), ""},
		"a file that is not there":                {"/nowhere/at/all", ""},
		"a program with set-user-ID of the user":  {withMode(t, os.Getuid(), os.ModeSetuid), ""},
		"a program with set-group-ID of the user": {withMode(t, os.Getuid(), os.ModeSetgid), ""},
	} {
		t.Run(name, func(t *testing.T) { checkProgram(t, Check(test.path), test.want) })
	}
}

func checkProgram(t *testing.T, err error, want string) {
	t.Helper()
	var incompatible *Incompatible
	switch {
	case want == "" && err != nil:
		t.Errorf("it is refused: %v", err)
	case want != "" && (!errors.As(err, &incompatible) || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want a reason with %q", err, want)
	case err != nil && strings.Contains(err.Error(), "\n"):
		t.Errorf("more than a sentence: %q", err)
	}
}

// withMode is an ordinary program of some user and their group.
func withMode(t *testing.T, user int, mode os.FileMode) string {
	t.Helper()
	path := place(t, ordinary, "privileged")
	if os.Getuid() == 0 {
		if err := os.Chown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o755|mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// withCapabilities is an ordinary program with CAP_NET_RAW.
func withCapabilities(t *testing.T) string {
	t.Helper()
	path := place(t, ordinary, "capable")
	const revision2Effective, netRaw = 0x02000001, 1 << 13
	var capability bytes.Buffer
	_ = binary.Write(&capability, binary.LittleEndian, []uint32{revision2Effective, netRaw, 0, 0, 0})
	if err := unix.Setxattr(path, "security.capability", capability.Bytes(), 0); err != nil {
		t.Fatal(err)
	}
	return path
}

// needPrivileges skips a test where files cannot be given privileges.
func needPrivileges(t *testing.T) {
	t.Helper()
	path := place(t, ordinary, "privileged")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if os.Getuid() != 0 || privilegesIgnored(file) {
		t.Skip("needs root and a folder for temporary files in which privileges of files count")
	}
}

func TestCheckOfPrivilegedPrograms(t *testing.T) {
	needPrivileges(t)
	for name, test := range map[string]struct {
		path   string
		nobody bool
		want   string
	}{
		"set-user-ID of another user":              {withMode(t, nobody, os.ModeSetuid), false, "set-user-ID 65534"},
		"set-group-ID of another group":            {withMode(t, nobody, os.ModeSetgid), false, "set-group-ID 65534"},
		"file capabilities, started by root":       {withCapabilities(t), false, ""},
		"file capabilities, started by nobody":     {withCapabilities(t), true, "file capabilities"},
		"set-user-ID of root, started by nobody":   {withMode(t, 0, os.ModeSetuid), true, "set-user-ID 0"},
		"set-user-ID of nobody, started by nobody": {withMode(t, nobody, os.ModeSetuid), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(place(t, os.Args[0], "reach"))
			command.Env = append(os.Environ(), reachVariable+"="+test.path)
			if test.nobody {
				command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			output, err := command.Output()
			if err != nil || !strings.Contains(string(output), test.want) || (test.want == "") != (len(output) == 0) {
				t.Errorf("it says %q, %v; want %q", output, err, test.want)
			}
		})
	}
}
