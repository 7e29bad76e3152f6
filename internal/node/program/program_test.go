// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// counting counts the bytes that are read from a file.
type counting struct {
	io.ReaderAt
	bytes int
}

func (c *counting) ReadAt(to []byte, offset int64) (int, error) {
	c.bytes += len(to)
	return c.ReaderAt.ReadAt(to, offset)
}

// readMax is the largest number of bytes that Read and ReadImports read.
const readMax = 64 + headersMax + segmentsMax*(noteMax+dataMax) + dynamicMax + namesMax

// compile compiles a program that calls sendmsg.
func compile(t testing.TB, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, executable := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	const text = "#include <sys/socket.h>\nint main(void) { return (int)sendmsg(-1, 0, 0); }\n"
	testlab.Must(t, os.WriteFile(source, []byte(text), 0o600))
	if output, err := exec.Command("gcc", append(options, "-o", executable, source)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, output)
	}
	return executable
}

func open(t testing.TB, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	testlab.Must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func TestProgramHeaders(t *testing.T) {
	self, err := os.Executable() // built by Go
	testlab.Must(t, err)
	selfIsStatic := !slices.ContainsFunc(debugELF(t, self).Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	for name, test := range map[string]struct {
		path           string
		static, golang bool
	}{
		"dynamic":    {compile(t), false, false},
		"no-pie":     {compile(t, "-no-pie"), false, false},
		"static":     {compile(t, "-static"), true, false},
		"static-pie": {compile(t, "-static-pie"), true, false},
		"system":     {"/bin/true", false, false},
		"Go":         {self, selfIsStatic, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := &counting{ReaderAt: open(t, test.path)}
			p, err := Read(file)
			testlab.Must(t, err)
			if p.Static != test.static || p.Go != test.golang {
				t.Errorf("static %v, Go %v", p.Static, p.Go)
			}
			library := debugELF(t, test.path)
			if p.Machine != library.Machine || p.Class != library.Class || p.Data != library.Data {
				t.Errorf("it is for %v, %v, %v", p.Machine, p.Class, p.Data)
			}
			wanted, _ := library.ImportedLibraries()
			imports := p.ReadImports(file)
			if !slices.Equal(imports.Libraries, wanted) {
				t.Errorf("it needs %q, want %q", imports.Libraries, wanted)
			}
			if file.bytes > readMax {
				t.Errorf("%d bytes were asked for", file.bytes)
			}
		})
	}
}

// debugELF opens the file with package elf, for which these programs are harmless.
func debugELF(t *testing.T, path string) *elf.File {
	t.Helper()
	file, err := elf.Open(path)
	testlab.Must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func TestImports(t *testing.T) {
	file := open(t, compile(t))
	p, err := Read(file)
	testlab.Must(t, err)
	imports := p.ReadImports(file)
	if !imports.Mentions("sendmsg") || imports.Mentions("sendmms") || imports.Mentions("sendmmsg") {
		t.Errorf("the names are %q", imports.names)
	}
}

func TestGoProgramWithoutNote(t *testing.T) {
	raw := newELF(1, func(header []byte) {
		binary.LittleEndian.PutUint32(header, uint32(elf.PT_LOAD))
		binary.LittleEndian.PutUint32(header[4:], uint32(elf.PF_R|elf.PF_W))
		binary.LittleEndian.PutUint64(header[8:], 128)
		binary.LittleEndian.PutUint64(header[32:], 4096)
	})
	raw = append(raw, make([]byte, 128-len(raw)+3*goMagicAlign)...)
	raw = append(raw, goMagic...)
	if p, err := Read(bytes.NewReader(raw)); err != nil || !p.Go {
		t.Errorf("got %+v, %v", p, err)
	}
}

// newELF returns the beginning of a program with identical program headers.
func newELF(count uint16, fill func([]byte)) []byte {
	raw := make([]byte, 64+56)
	copy(raw, elf.ELFMAG)
	raw[elf.EI_CLASS], raw[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	binary.LittleEndian.PutUint64(raw[32:], 64)
	binary.LittleEndian.PutUint16(raw[54:], 56)
	binary.LittleEndian.PutUint16(raw[56:], count)
	fill(raw[64:])
	for range max(count, 1) - 1 {
		raw = append(raw, raw[64:64+56]...)
	}
	return raw
}

func TestNoProgram(t *testing.T) {
	loader := func(size uint64) []byte {
		return newELF(1, func(header []byte) {
			binary.LittleEndian.PutUint32(header, uint32(elf.PT_INTERP))
			binary.LittleEndian.PutUint64(header[32:], size)
		})
	}
	strange := newELF(1, func([]byte) {})
	strange[elf.EI_CLASS] = 3
	entries := newELF(1, func([]byte) {})
	entries[54] = 57
	for name, raw := range map[string][]byte{
		"nothing": nil, "a text": []byte("exit 0\n"), "a beginning": newELF(1, func([]byte) {})[:51],
		"no headers": newELF(0, func([]byte) {}), "more than 64 KiB of headers": newELF(1171, func([]byte) {}),
		"a loader without a name": loader(1), "a loader with a name of 4 GiB": loader(4 << 30), "neither 32 nor 64 bits": strange,
		"headers of another size": entries,
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := Read(bytes.NewReader(raw)); !errors.Is(err, ErrNoProgram) {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	if _, err := Read(bytes.NewReader(newELF(3, func([]byte) {})[:100])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of headers that are not there: %v", err)
	}
	if _, err := Read(bytes.NewReader(newELF(1170, func([]byte) {}))); err != nil {
		t.Errorf("as many headers as the kernel takes: %v", err)
	}
}

// withSectionTable makes a static program claim a section table of 4 GiB, in a sparse file.
func withSectionTable(t testing.TB) string {
	t.Helper()
	path := compile(t, "-static")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	testlab.Must(t, err)
	defer file.Close()
	const tableAt, countAt, sizeAt = 1 << 20, 60, 32
	var header [64]byte
	for _, err := range []error{
		write(file, 40, binary.LittleEndian.AppendUint64(nil, tableAt)), // e_shoff
		write(file, countAt, []byte{0, 0}),                              // e_shnum: the first section says how many there are
		write(file, tableAt, header[:]),
		write(file, tableAt+sizeAt, binary.LittleEndian.AppendUint64(nil, 4<<30/64)),
		file.Truncate(tableAt + 4<<30),
	} {
		testlab.Must(t, err)
	}
	return path
}

func write(file *os.File, at int64, content []byte) error {
	_, err := file.WriteAt(content, at)
	return err
}

func TestHugeSectionTable(t *testing.T) {
	path := withSectionTable(t)
	if output, err := exec.Command(path).CombinedOutput(); err == nil {
		t.Fatalf("it should run, and fail to send: %s", output)
	} else if _, ran := errors.AsType[*exec.ExitError](err); !ran {
		t.Fatalf("the kernel does not start it: %v", err)
	}
	file := &counting{ReaderAt: open(t, path)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Read(file)
	runtime.ReadMemStats(&after)
	if err != nil || !p.Static {
		t.Errorf("got %+v, %v", p, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; file.bytes > readMax || allocated > 2*readMax {
		t.Errorf("%d bytes were asked for, %d allocated", file.bytes, allocated)
	}
}

func FuzzRead(f *testing.F) {
	for _, path := range []string{"/bin/true", compile(f, "-static")} {
		text, err := os.ReadFile(path)
		testlab.Must(f, err)
		f.Add(text[:min(len(text), 4096)])
	}
	f.Add(newELF(2, func([]byte) {}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := &counting{ReaderAt: bytes.NewReader(raw)}
		p, err := Read(file)
		if err == nil {
			p.ReadImports(file)
		}
		if file.bytes > readMax {
			t.Errorf("%d bytes were asked for", file.bytes)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	file := open(b, "/bin/true")
	for b.Loop() {
		if _, err := Read(file); err != nil {
			b.Fatal(err)
		}
	}
}
