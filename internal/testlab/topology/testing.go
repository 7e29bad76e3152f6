// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// NewTestNamespace creates a network namespace for a role in a test. The end of the test removes it.
func NewTestNamespace(t testing.TB, role string) *Namespace {
	t.Helper()
	testlab.Root(t)
	id, err := NewID()
	testlab.Must(t, err)
	created, err := NewNamespace(id.String() + "-" + role)
	testlab.Must(t, err)
	t.Cleanup(func() {
		if err := created.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return created
}

// EnterTestNamespace moves the test's thread to a new network namespace. The thread ends with the test.
func EnterTestNamespace(t testing.TB, role string) *Namespace {
	t.Helper()
	created := NewTestNamespace(t, role)
	file, err := os.Open(created.Path())
	testlab.Must(t, err)
	defer file.Close()
	runtime.LockOSThread()
	testlab.Must(t, unix.Setns(int(file.Fd()), unix.CLONE_NEWNET))
	return created
}
