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
)

// counting counts what is read of a file.
type counting struct {
	io.ReaderAt
	bytes int
}

func (c *counting) ReadAt(to []byte, offset int64) (int, error) {
	c.bytes += len(to)
	return c.ReaderAt.ReadAt(to, offset)
}

// readMax is how much of a file Read and ReadImports ask for at most.
const readMax = 64 + headersMax + segmentsMax*(noteMax+dataMax) + dynamicMax + namesMax

// compile compiles a program that sends, or one without any C library.
func compile(t testing.TB, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, made := filepath.Join(dir, "p.c"), filepath.Join(dir, "p")
	const text = "#include <sys/socket.h>\nint main(void) { return (int)sendmsg(-1, 0, 0); }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("gcc", append(options, "-o", made, source)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, said)
	}
	return made
}

func open(t testing.TB, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestProgramHeaders(t *testing.T) {
	own, err := os.Executable() // a test is Go's
	if err != nil {
		t.Fatal(err)
	}
	ownIsStatic := !slices.ContainsFunc(debugELF(t, own).Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	for name, test := range map[string]struct {
		path           string
		static, golang bool
	}{
		"an ordinary program":                   {compile(t), false, false},
		"one that is not position independent":  {compile(t, "-no-pie"), false, false},
		"a static program":                      {compile(t, "-static"), true, false},
		"a static position-independent program": {compile(t, "-static-pie"), true, false},
		"one of the system's":                   {"/bin/true", false, false},
		"a program of Go's":                     {own, ownIsStatic, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := &counting{ReaderAt: open(t, test.path)}
			p, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
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

// debugELF is what the library says, for which these programs are no danger.
func debugELF(t *testing.T, path string) *elf.File {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestImports(t *testing.T) {
	file := open(t, compile(t))
	p, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
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

// newELF is the beginning of a program with headers that all are the same.
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

// withSectionTable makes a static program claim a table of sections that is 4 GiB long: a hole, a few kilobytes on the disk.
func withSectionTable(t testing.TB) string {
	t.Helper()
	path := compile(t, "-static")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func write(file *os.File, at int64, content []byte) error {
	_, err := file.WriteAt(content, at)
	return err
}

func TestHugeSectionTable(t *testing.T) {
	path := withSectionTable(t)
	if said, err := exec.Command(path).CombinedOutput(); err == nil {
		t.Fatalf("it should run, and fail to send: %s", said)
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
		if err != nil {
			f.Fatal(err)
		}
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
