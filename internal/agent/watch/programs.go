// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Proc finds programs in the process file system of the node.
type Proc struct{ Dir string }

// Without looks at all processes in cgroups of the pod. Those that end meanwhile are left out; what of another cannot be
// looked at is in the error, beside what was found of the rest.
func (p Proc) Without(uid string) ([]string, error) {
	folders, err := filepath.Glob(filepath.Join(p.Dir, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("there are no processes in %s; the node's /proc has to be mounted there", p.Dir)
	}
	var sentences []string
	var all error
	for _, folder := range folders {
		is, err := ofPod(folder, uid)
		sentence := ""
		if is {
			sentence, err = judge(folder)
		}
		switch {
		case hasEnded(err):
		case err != nil:
			all = errors.Join(all, fmt.Errorf("process %s: %w", filepath.Base(folder), err))
		case sentence != "" && !slices.Contains(sentences, sentence):
			sentences = append(sentences, sentence)
		}
	}
	return sentences, all
}

// hasEnded tells whether a process could not be looked at because there is none any more.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// ofPod tells whether a process is in a cgroup of the pod, which kubelet names by the UID, systemd with underscores.
func ofPod(folder, uid string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup"))
	return bytes.Contains(text, []byte("pod"+uid)) || bytes.Contains(text, []byte("pod"+strings.ReplaceAll(uid, "-", "_"))), err
}

// judge says why a process that was started with libktsn.so is without it; "" when it is not so.
func judge(folder string) (string, error) {
	environment, err := os.ReadFile(filepath.Join(folder, "environ"))
	if err != nil || !preloadsLibrary(environment) {
		return "", err
	}
	maps, err := os.ReadFile(filepath.Join(folder, "maps"))
	if err != nil || bytes.Contains(maps, []byte(libraryName)) {
		return "", err
	}
	name, err := os.Readlink(filepath.Join(folder, "exe"))
	if err != nil {
		return "", err
	}
	static, golang, err := look(filepath.Join(folder, "exe"))
	if err != nil {
		return "", err
	}
	const consequence = "its messages leave without their times"
	switch {
	case static && golang:
		return fmt.Sprintf("Program %s is written in Go and linked statically: it makes its own system calls, so libktsn.so cannot catch them and %s", name, consequence), nil
	case static:
		return fmt.Sprintf("Program %s is linked statically, so libktsn.so cannot be loaded into it and %s; link it dynamically", name, consequence), nil
	}
	return fmt.Sprintf("Program %s was started with LD_PRELOAD but libktsn.so is not in it (the path is wrong, the program has set-user-id, or its "+
		"loader refused it), so %s", name, consequence), nil
}

func preloadsLibrary(environment []byte) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.HasPrefix(variable, []byte("LD_PRELOAD=")) && bytes.Contains(variable, []byte(libraryName)) {
			return true
		}
	}
	return false
}

// look reads from a program whether nobody loads libraries for it, and whether Go's toolchain built it.
func look(path string) (static, golang bool, err error) {
	program, err := elf.Open(path)
	if err != nil {
		return false, false, err
	}
	defer program.Close()
	static = !slices.ContainsFunc(program.Progs, func(part *elf.Prog) bool { return part.Type == elf.PT_INTERP })
	_, errInfo := buildinfo.ReadFile(path)
	return static, errInfo == nil, nil
}
