// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/node/program"
)

// Limits of the data that is read of a pod.
const (
	processesMax    = 256
	cgroupMax       = 64 << 10
	environmentMax  = 256 << 10
	mappingsMax     = 4 << 20
	programsMax     = 16
	failuresMax     = 4
	readAtOnceBytes = 64 << 10
)

// libraryName is the library's file name in any folder.
const libraryName = "libktsn.so"

// Program is a program that was started with the library and has not loaded it.
type Program struct {
	Name   string `json:"name"`
	Static bool   `json:"static,omitempty"`
	Go     bool   `json:"go,omitempty"`
}

// Report is the result for a pod.
type Report struct {
	Programs []Program `json:"found,omitempty"`
	// Failures are errors of processes that could not be inspected.
	Failures []string `json:"failures,omitempty"`
}

// inspectPod inspects the processes in cgroups of the pod. It ignores processes that end meanwhile.
func inspectPod(proc, uid string) (*Report, error) {
	folders, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("no processes in %s; the node's /proc must be mounted there", proc)
	}
	report := &Report{}
	count := 0
	for _, folder := range folders {
		inPod, err := isInPod(folder, uid)
		var finding *Program
		if inPod && count < processesMax {
			count++
			finding, err = inspectProcess(folder)
		}
		switch {
		case hasEnded(err):
		case err != nil && len(report.Failures) < failuresMax:
			report.Failures = append(report.Failures, fmt.Sprintf("process %s: %v", filepath.Base(folder), err))
		case finding != nil && len(report.Programs) < programsMax && !slices.Contains(report.Programs, *finding):
			report.Programs = append(report.Programs, *finding)
		}
	}
	return report, nil
}

// hasEnded reports whether an error means that the process has ended.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// isInPod reports whether a process is in a cgroup of the pod. kubelet names it by the UID, systemd with underscores.
func isInPod(folder, uid string) (bool, error) {
	text, err := readBeginning(filepath.Join(folder, "cgroup"), cgroupMax)
	return bytes.Contains(text, []byte("pod"+uid)) || bytes.Contains(text, []byte("pod"+strings.ReplaceAll(uid, "-", "_"))), err
}

func readBeginning(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// inspectProcess inspects a process. It returns nil if the process has loaded the library or does not preload it.
func inspectProcess(folder string) (*Program, error) {
	environment, err := readBeginning(filepath.Join(folder, "environ"), environmentMax)
	if err != nil || !preloadsLibrary(environment) {
		return nil, err
	}
	has, err := containsWord(filepath.Join(folder, "maps"), libraryName, mappingsMax)
	if err != nil || has {
		return nil, err
	}
	name, err := os.Readlink(filepath.Join(folder, "exe"))
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(folder, "exe"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := program.Read(file)
	if err != nil {
		return nil, err
	}
	return &Program{Name: name, Static: info.Static, Go: info.Go}, nil
}

func preloadsLibrary(environment []byte) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.HasPrefix(variable, []byte("LD_PRELOAD=")) && bytes.Contains(variable, []byte(libraryName)) {
			return true
		}
	}
	return false
}

// containsWord reports whether a file contains a word, with little memory. It returns true for a file that is longer
// than limit.
func containsWord(path, word string, limit int) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	window := make([]byte, 0, readAtOnceBytes+len(word))
	for total := 0; total < limit; {
		count, err := file.Read(window[len(window) : len(window)+readAtOnceBytes])
		total += count
		window = window[:len(window)+count]
		if bytes.Contains(window, []byte(word)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// The word may be split between two reads.
		keep := min(len(window), len(word)-1)
		window = append(window[:0], window[len(window)-keep:]...)
	}
	return true, nil
}
