// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Names in datapath/receive/receive.bpf.c.
const (
	receiveProgram = "ktsn_receive"
	kernelProgram  = "ktsn_receive_kernel"
	peersMap       = "peers"
	endpointsMap   = "endpoints"
	socketsMap     = "sockets"
	ringsMap       = "rings"
	controlsMap    = "controls"
	countsMap      = "counts"
)

var mapNames = []string{peersMap, endpointsMap, socketsMap, ringsMap, controlsMap, countsMap}

// object has the compiled programs, once `make build` has put them there. The folder is embedded as a whole so that this
// package compiles without it.
//
//go:embed object
var object embed.FS

const objectFile = "object/receive.bpf.o"

var errNotBuilt = errors.New("this program was built without datapath/receive; build it by `make build`")

// compiled is the object file.
func compiled() ([]byte, error) {
	text, err := object.ReadFile(objectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotBuilt
	}
	return text, err
}

// filterName is that of our filter: the program's, and which release's it is.
func filterName(compiled []byte) string {
	sum := sha256.Sum256(compiled)
	return receiveProgram + ":" + hex.EncodeToString(sum[:4])
}

// load gives the programs to the kernel, with the maps of the folder; those that are missing are made and pinned there.
func load(compiled []byte, folder string) (*ebpf.Collection, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(compiled))
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	for _, name := range mapNames {
		if spec.Maps[name] == nil {
			return nil, fmt.Errorf("the program has no map %s; build it anew by `make build`", name)
		}
		spec.Maps[name].Pinning = ebpf.PinByName
	}
	// It takes tens of milliseconds to read, therefore once.
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read the kernel's BTF (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	if err := errors.Join(checkCookie(kernel), checkOverruns()); err != nil {
		return nil, err
	}
	options := ebpf.CollectionOptions{
		Maps:     ebpf.MapOptions{PinPath: folder},
		Programs: ebpf.ProgramOptions{KernelTypes: kernel},
	}
	loaded, err := ebpf.NewCollectionWithOptions(spec, options)
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		return nil, fmt.Errorf("%s: %w: %w", folder, ErrOtherRelease, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load the program into the kernel: %w", err)
	}
	return loaded, nil
}

// checkCookie tells whether the kernel says which network namespace a socket is of. The program takes nothing where it does
// not.
func checkCookie(kernel *btf.Spec) error {
	var net *btf.Struct
	if err := kernel.TypeByName("net", &net); err != nil {
		return fmt.Errorf("look for struct net in the kernel's BTF: %w", err)
	}
	for _, member := range net.Members {
		if member.Name == "net_cookie" {
			return nil
		}
	}
	return errors.New("the kernel's struct net has no net_cookie, so nobody can tell whose a socket is")
}
