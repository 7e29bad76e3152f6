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

// Limits of what is read of a pod.
const (
	processesMax    = 256
	cgroupMax       = 64 << 10
	environmentMax  = 256 << 10
	mappingsMax     = 4 << 20
	foundMax        = 16
	failuresMax     = 4
	readAtOnceBytes = 64 << 10
)

// libraryName is what the library is called wherever it lies.
const libraryName = "libktsn.so"

// Found is a program that was started with the library and is without it.
type Found struct {
	Name   string `json:"name"`
	Static bool   `json:"static,omitempty"`
	Go     bool   `json:"go,omitempty"`
}

// Report is what was found of a pod.
type Report struct {
	Found []Found `json:"found,omitempty"`
	// Failures are sentences about processes that could not be looked at.
	Failures []string `json:"failures,omitempty"`
}

// look looks at the processes in cgroups of the pod. Those that end meanwhile are left out.
func look(proc, uid string) (*Report, error) {
	folders, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("there are no processes in %s; the node's /proc has to be mounted there", proc)
	}
	report := &Report{}
	looked := 0
	for _, folder := range folders {
		is, err := ofPod(folder, uid)
		var found *Found
		if is && looked < processesMax {
			looked++
			found, err = judge(folder)
		}
		switch {
		case hasEnded(err):
		case err != nil && len(report.Failures) < failuresMax:
			report.Failures = append(report.Failures, fmt.Sprintf("process %s: %v", filepath.Base(folder), err))
		case found != nil && len(report.Found) < foundMax && !slices.Contains(report.Found, *found):
			report.Found = append(report.Found, *found)
		}
	}
	return report, nil
}

// hasEnded tells whether a process could not be looked at because there is none any more.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// ofPod tells whether a process is in a cgroup of the pod, which kubelet names by the UID, systemd with underscores.
func ofPod(folder, uid string) (bool, error) {
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

// judge looks at one process; nil when it has the library or does not want it.
func judge(folder string) (*Found, error) {
	environment, err := readBeginning(filepath.Join(folder, "environ"), environmentMax)
	if err != nil || !preloadsLibrary(environment) {
		return nil, err
	}
	has, err := mentions(filepath.Join(folder, "maps"), libraryName, mappingsMax)
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
	about, err := program.Read(file)
	if err != nil {
		return nil, err
	}
	return &Found{Name: name, Static: about.Static, Go: about.Go}, nil
}

func preloadsLibrary(environment []byte) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.HasPrefix(variable, []byte("LD_PRELOAD=")) && bytes.Contains(variable, []byte(libraryName)) {
			return true
		}
	}
	return false
}

// mentions tells whether a word is in a file, of which no more than a little is in memory at once. Of a file that is longer
// than limit nobody knows: it is taken to have the word.
func mentions(path, word string, limit int) (bool, error) {
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
		// The word may stand across two reads.
		keep := min(len(window), len(word)-1)
		window = append(window[:0], window[len(window)-keep:]...)
	}
	return true, nil
}
