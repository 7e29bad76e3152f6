// SPDX-License-Identifier: Apache-2.0

package xfrm

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestTry tests with this machine's kernel. A kernel with ESP is tested in a virtual machine.
func TestTry(t *testing.T) {
	testlab.Root(t)
	namespace := func() string {
		text, err := os.Readlink("/proc/self/ns/net")
		testlab.Must(t, err)
		return text
	}
	before := namespace()
	err := Try()
	if err != nil && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "esp4")) {
		t.Error(err)
	}
	t.Logf("this kernel: %v", err)
	if after := namespace(); after != before {
		t.Errorf("the process is in another network namespace")
	}
}

func TestExplain(t *testing.T) {
	for _, err := range []error{unix.EPERM, unix.EEXIST, unix.ENOMEM} {
		if explained := explain(err); errors.Is(explained, ErrUnavailable) {
			t.Errorf("%v: %v", err, explained)
		}
	}
}
