// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"
)

// typesFor is for how long the kernel's types are kept that were read: tens of milliseconds to read, and megabytes to keep.
const typesFor = 10 * time.Second

// kept are the kernel's types, for a process that attaches many programs in a row.
var kept struct {
	sync.Mutex
	types *btf.Spec
	drop  *time.Timer
}

// kernelTypes reads the kernel's types, or returns those that were read lately.
func kernelTypes() (*btf.Spec, error) {
	kept.Lock()
	defer kept.Unlock()
	if kept.types == nil {
		types, err := btf.LoadKernelSpec()
		if err != nil {
			return nil, err
		}
		kept.types = types
		kept.drop = time.AfterFunc(typesFor, dropTypes)
	}
	kept.drop.Reset(typesFor)
	return kept.types.Copy(), nil
}

func dropTypes() {
	kept.Lock()
	defer kept.Unlock()
	kept.types = nil
}
