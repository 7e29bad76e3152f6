// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// CPython is a program of others that makes its system calls through the C library, and knows nothing of us: its
// sockets, its poll, its epoll and its select.
func TestPythonSocketsBehaveAsWithKernel(t *testing.T) {
	content(t)
	python := python(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--strategy", "etf")
	listener := lab.listenForTexts(t)
	command := exec.Command(python, "testdata/txtime.py", topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = lab.preloaded(t)
	if err := finish(t, start(t, lab.PodA, "python3", command)); err != nil {
		t.Fatal(err)
	}
	awaitSettled(t, client)
	if got, want := texts(t, listener), []string{"python-sooner", "python-later"}; !slices.Equal(got, want) {
		t.Errorf("arrived: %q, want %q", got, want)
	}
}
