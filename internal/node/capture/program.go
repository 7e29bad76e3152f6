// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Names in datapath/capture/capture.bpf.c.
const (
	captureProgram = "ktsn_capture"
	divertProgram  = "ktsn_divert"
	guestProgram   = "ktsn_guest"
	countsMap      = "counts"
	programsMap    = "programs"
	stateMap       = "state"
	controlMap     = "control"
	heartbeatMap   = "heartbeat"
	guestMap       = "guest"
	widestMap      = "widest"
)

// RecordBytes is the length of the record in front of a captured frame: KTSN_RECORD_BYTES of datapath/capture/record.h.
const RecordBytes = 24

// mapsOf lists the maps of each program.
var mapsOf = map[string][]string{
	captureProgram: {countsMap, programsMap, stateMap},
	divertProgram:  {countsMap, stateMap, controlMap, heartbeatMap},
	guestProgram:   {countsMap, programsMap, stateMap, guestMap, widestMap},
}

// object has the compiled programs after `make build`. The whole folder is embedded so that this
// package compiles without it.
//
//go:embed object
var object embed.FS

const objectFile = "object/capture.bpf.o"

var errNotBuilt = errors.New("this program was built without datapath/capture; build it by `make build`")

// load loads one of the programs into the kernel, with new maps.
func load(name string, mode Mode, by ClassBy) (*ebpf.Collection, error) {
	spec, err := readObject()
	if err != nil {
		return nil, err
	}
	only := &ebpf.CollectionSpec{
		Programs:  map[string]*ebpf.ProgramSpec{name: spec.Programs[name]},
		Maps:      map[string]*ebpf.MapSpec{},
		Types:     spec.Types,
		ByteOrder: spec.ByteOrder,
	}
	for _, mapName := range mapsOf[name] {
		only.Maps[mapName] = spec.Maps[mapName]
	}
	var options ebpf.CollectionOptions
	if name != divertProgram {
		kernel, err := kernelTypes()
		if err != nil {
			return nil, fmt.Errorf("read the kernel's BTF: %w", err)
		}
		if mode != None {
			if err := checkClock(kernel); err != nil {
				return nil, err
			}
		}
		options.Programs.KernelTypes = kernel
	}
	loaded, err := ebpf.NewCollectionWithOptions(only, options)
	if err != nil {
		return nil, fmt.Errorf("load the program into the kernel: %w", err)
	}
	if err := loaded.Maps[stateMap].Put(uint32(0), &state{Mode: uint16(mode), ClassBy: uint16(by), Version: version}); err != nil {
		loaded.Close()
		return nil, fmt.Errorf("set the program's mode: %w", err)
	}
	return loaded, nil
}

func readObject() (*ebpf.CollectionSpec, error) {
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
	return spec, nil
}

// checkClock fails if the kernel's struct sock does not have the clock of transmit times. The programs would drop every
// frame with a transmit time.
func checkClock(kernel *btf.Spec) error {
	var sock *btf.Struct
	if err := kernel.TypeByName("sock", &sock); err != nil {
		return fmt.Errorf("look for struct sock in the kernel's BTF: %w", err)
	}
	return hasClock(sock)
}

func hasClock(sock *btf.Struct) error {
	for _, member := range sock.Members {
		if member.Name == "sk_clockid" {
			return nil
		}
	}
	return errors.New("the kernel's struct sock has no sk_clockid, so the clock of transmit times is unknown")
}
