// SPDX-License-Identifier: Apache-2.0

package unseen

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
)

// Names in datapath/unseen/unseen.bpf.c.
const (
	programName = "ktsn_unseen"
	sumMap      = "unseen"
	programsMap = "programs"
)

// object has the compiled program, once `make build` has put it there. The folder is embedded as a whole so that this
// package compiles without it.
//
//go:embed object
var object embed.FS

const objectFile = "object/unseen.bpf.o"

var errNotBuilt = errors.New("this program was built without datapath/unseen; build it by `make build`")

// load gives the program to the kernel, with maps of its own.
func load() (*ebpf.Collection, error) {
	compiled, err := object.ReadFile(objectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotBuilt
	}
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(compiled))
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the program into the kernel: %w", err)
	}
	return loaded, nil
}
