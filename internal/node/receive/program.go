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
	takenVerdict   = "taken_verdict"
)

// tcxProgram begins the name of the program where it is attached by tcx.
const tcxProgram = "ktsn_rx"

// tcxDrop is TCX_DROP of linux/bpf.h.
const tcxDrop = 2

var mapNames = []string{peersMap, endpointsMap, socketsMap, ringsMap, controlsMap, countsMap}

// object has the compiled programs after `make build`. The whole folder is embedded so that this
// package compiles without it.
//
//go:embed object
var object embed.FS

const objectFile = "object/receive.bpf.o"

var errNotBuilt = errors.New("this program was built without datapath/receive; build it by `make build`")

// compiled returns the object file.
func compiled() ([]byte, error) {
	text, err := object.ReadFile(objectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotBuilt
	}
	return text, err
}

// filterName returns the name of our filter: the program's name and a hash of the object file, which identifies the release.
func filterName(compiled []byte) string { return receiveProgram + ":" + release(compiled) }

// tcxName returns the program's name where it is attached by tcx, which has no names of its own. It is shorter than the 15 characters of
// the kernel's names: for a name of 15, ebpf reads that of the function instead.
func tcxName(compiled []byte) string { return tcxProgram + release(compiled)[:7] }

func release(compiled []byte) string {
	sum := sha256.Sum256(compiled)
	return hex.EncodeToString(sum[:4])
}

// load loads the programs into the kernel with the maps of the folder. Missing maps are created and pinned there. byTCX: the program is
// attached by tcx.
func load(compiled []byte, folder string, byTCX bool) (*ebpf.Collection, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(compiled))
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	for _, name := range mapNames {
		if spec.Maps[name] == nil {
			return nil, fmt.Errorf("the program has no map %s; rebuild it by `make build`", name)
		}
		spec.Maps[name].Pinning = ebpf.PinByName
	}
	if byTCX {
		spec.Programs[receiveProgram].Name = tcxName(compiled)
		verdict := spec.Variables[takenVerdict]
		if verdict == nil {
			return nil, fmt.Errorf("the program has no variable %s; rebuild it by `make build`", takenVerdict)
		}
		if err := verdict.Set(int32(tcxDrop)); err != nil {
			return nil, fmt.Errorf("set what becomes of taken datagrams: %w", err)
		}
	}
	// Reading the BTF takes tens of milliseconds.
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

// checkCookie fails if the kernel's struct net does not have the cookie that identifies the network namespace of a socket.
// Without it the program takes no datagram.
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
	return errors.New("the kernel's struct net has no net_cookie, so the network namespace of a socket is unknown")
}
