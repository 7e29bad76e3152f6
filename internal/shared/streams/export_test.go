// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestYANGData compares the data of YANG modules with testdata. With KTSN_YANG, a folder of the published modules, yanglint validates them.
func TestYANGData(t *testing.T) {
	in := readExample(t)
	plan := mustSolve(t, in, nil)
	documents := plan.BridgeData(in)
	request, fault := in.RequestData()
	if fault != nil {
		t.Fatal(fault)
	}
	documents["request"] = request
	if len(documents) != 3 {
		t.Errorf("%d documents instead of those of cell, hall and the request", len(documents))
	}
	for name, data := range documents {
		text, err := json.MarshalIndent(data, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path := "testdata/" + name + ".json"
		golden(t, path, append(text, '\n'))
		folder := os.Getenv("KTSN_YANG")
		if folder == "" {
			continue
		}
		modules := []string{"ieee802-dot1q-sched.yang", "iana-if-type.yang", "ieee802-dot1q-sched-bridge.yang"}
		if name == "request" {
			modules = []string{"ieee802-dot1q-cnc-config.yang"}
		}
		arguments := []string{"-p", folder, "-t", "config"}
		if name != "request" {
			arguments = append(arguments, "-F", "ieee802-dot1q-sched:scheduled-traffic")
		}
		for _, module := range modules {
			arguments = append(arguments, filepath.Join(folder, module))
		}
		if out, err := exec.Command("yanglint", append(arguments, path)...).CombinedOutput(); err != nil || strings.Contains(string(out), "err :") {
			t.Errorf("yanglint %s: %v\n%s", name, err, out)
		}
	}
	in.Topology.Stations[0].MACAddress = "2"
	if _, fault := in.RequestData(); fault == nil || !strings.Contains(fault.Error(), `topology.stations[0].mac-address: of plc is "2"; give it as`) {
		t.Errorf("got %v", fault)
	}
	in.Topology.Stations = in.Topology.Stations[1:]
	if _, fault := in.RequestData(); fault == nil || !strings.Contains(fault.Error(), "stream setpoints: a request to a CNC needs the hardware address of plc") {
		t.Errorf("got %v", fault)
	}
}

// TestCyclesOverFourSeconds exports cycles whose nanoseconds have more than 32 bits.
func TestCyclesOverFourSeconds(t *testing.T) {
	in := readExample(t)
	in.Topology.SupportedCycleMaxNs = 6_000_000_001
	if _, err := solve(t, in, nil); err == nil || !strings.Contains(err.Error(), "give a multiple of 1000 ns, such as 6000000000") {
		t.Errorf("got %v", err)
	}
	in.Topology.SupportedCycleMaxNs, in.Topology.SupportedListMax = 3600e9, 1<<20
	in.Streams[2].Interval = Interval{9, 2}
	plan := mustSolve(t, in, nil)
	text, err := json.Marshal(plan.BridgeData(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"admin-cycle-time":{"numerator":9,"denominator":2}`, `"supported-cycle-max":{"numerator":3600,"denominator":1}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s", want)
		}
	}
	in.Streams = in.Streams[3:]
	in.Streams[0].Interval, in.Streams[0].MaxFramesPerInterval = IntervalOf(900_000_003), 1
	other := in.Streams[0]
	other.Name, other.Interval = "other", IntervalOf(2_100_000_007)
	in.Streams = append(in.Streams, other)
	if _, err := solve(t, in, nil); err == nil || !strings.Contains(err.Error(), "the cycle of port ") {
		t.Errorf("got %v", err)
	}
}

const (
	tsnkitLinks = "link,q_num,rate,t_proc,t_prop\n\"(0, 1)\",8,1,2000,0\n\"(1, 0)\",8,1,2000,0\n\"(0, 2)\",8,1,2000,0\n\"(2, 0)\",8,1,2000,0\n" +
		"\"(1, 3)\",8,1,2000,0\n\"(3, 1)\",8,1,2000,0\n"
	tsnkitStreams = "stream,src,dst,size,period,deadline,jitter\n0,2,[3],100,100000,100000,100000\n1,2,[3],200,200000,50000,0\n"
)

func TestTsnkit(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in, err := ReadTsnkit(write("streams.csv", tsnkitStreams), write("links.csv", tsnkitLinks))
	if err != nil {
		t.Fatal(err)
	}
	if err := mustSolve(t, in, nil).WriteTsnkit(filepath.Join(folder, "x"), in); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"GCL": "link,queue,start,end,cycle\n" +
			"\"(0, 1)\",7,2800,3600,200000\n\"(0, 1)\",7,4400,6000,200000\n\"(0, 1)\",7,102800,103600,200000\n" +
			"\"(1, 3)\",7,5600,6400,200000\n\"(1, 3)\",7,8000,9600,200000\n\"(1, 3)\",7,105600,106400,200000\n" +
			"\"(2, 0)\",7,0,2400,200000\n\"(2, 0)\",7,100000,100800,200000\n",
		"OFFSET": "stream,frame,offset\n0,0,0\n1,0,800\n",
		"QUEUE": "stream,frame,link,queue\n0,0,\"(2, 0)\",7\n0,0,\"(0, 1)\",7\n0,0,\"(1, 3)\",7\n" +
			"1,0,\"(2, 0)\",7\n1,0,\"(0, 1)\",7\n1,0,\"(1, 3)\",7\n",
		"ROUTE": "stream,link\n0,\"(2, 0)\"\n0,\"(0, 1)\"\n0,\"(1, 3)\"\n1,\"(2, 0)\"\n1,\"(0, 1)\"\n1,\"(1, 3)\"\n",
	} {
		got, err := os.ReadFile(filepath.Join(folder, "x-"+name+".csv"))
		if err != nil || string(got) != want {
			t.Errorf("%s is %v\n%s", name, err, got)
		}
	}
	for name, test := range map[string]struct{ streams, links, want string }{
		"no table":  {"a,b\n1\n", tsnkitLinks, "is no table of tsnkit"},
		"no column": {"stream,src\n1,2\n", tsnkitLinks, "has no column dst"},
		"no number": {strings.Replace(tsnkitStreams, "[3]", "[]", 1), tsnkitLinks, `:2: dst: is "[]"; must have numbers`},
		"period":    {strings.Replace(tsnkitStreams, "100,100000", "100,4300000001", 1), tsnkitLinks, ":2: period: is 4300000001 ns; must be"},
		"one way":   {tsnkitStreams, strings.Replace(tsnkitLinks, "(3, 1)", "(3, 0)", 1), "has no link back"},
	} {
		if _, err := ReadTsnkit(write("a.csv", test.streams), write("b.csv", test.links)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
