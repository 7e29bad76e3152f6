// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/cli/doctor"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func TestTrace(t *testing.T) {
	socket, changes := fakeDaemon(t, nil)
	status, stdout, stderr := ktsn(t, "trace", "--control", socket, "--pod", "pod-a", "--flow", "7", "--count", "2")
	if status != commandline.ExitOK || stderr != "" {
		t.Errorf("status %d, said %q", status, stderr)
	}
	want := "  FLOW  TC  BYTES       CALLED        TAKEN                              DUE (TAI)         SENT  OUTCOME           POD\n" +
		"     7   5     64      -300000      -297500         2023-11-14T22:13:20 TAI + 0 ns          +71  on-time           factory/axis-1\n" +
		"     7   5   1400            -        +2500   2023-11-14T22:13:20 TAI + 1000000 ns        never  drop-closed       factory/axis-1\n"
	if stdout != want {
		t.Errorf("printed\n%s\nwant\n%s", stdout, want)
	}
	if got, want := fmt.Sprint(changes()), `[{"version":1,"request":"trace-start","flow":7,"identity":"pod-a"} `+
		`{"version":1,"request":"trace-stop"}]`; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

func TestTraceJSON(t *testing.T) {
	socket, _ := fakeDaemon(t, nil)
	_, stdout, _ := ktsn(t, "trace", "--control", socket, "--count", "1", "-o", "json")
	var message traced
	if err := json.Unmarshal([]byte(stdout), &message); err != nil || strings.Count(stdout, "\n") != 1 || message.Outcome != "on-time" ||
		message.Identity != exampleIdentity || message.Name != "factory/axis-1" {
		t.Errorf("printed %q, %v", stdout, err)
	}
}

// exampleIdentity is that of the pod in the protocol's examples, which is called factory/axis-1.
const exampleIdentity = "5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10"

func TestTracePod(t *testing.T) {
	two := `{"version":1,"reply":"pods","total":2,"pods":[{"identity":"one","name":"plant/x-0"},{"identity":"two","name":"plant/x-0"}]}`
	for name, test := range map[string]struct {
		pod, pods string
		status    int
		want      string
	}{
		"its name":                    {"factory/axis-1", "", commandline.ExitOK, `"identity":"` + exampleIdentity + `"`},
		"its identity":                {exampleIdentity, "", commandline.ExitOK, `"identity":"` + exampleIdentity + `"`},
		"a name that nobody has":      {"factory/axis-2", "", commandline.ExitFailure, "--pod factory/axis-2: this node has no pod with that name; `ktsn status` lists them"},
		"a name that two have":        {"plant/x-0", two, commandline.ExitFailure, "--pod plant/x-0: several pods have or had this name; give one of the identities one, two"},
		"the identity of one of them": {"two", two, commandline.ExitOK, `"identity":"two"`},
	} {
		t.Run(name, func(t *testing.T) {
			instead := map[string]string{}
			if test.pods != "" {
				instead["pods"] = test.pods
			}
			socket, changes := fakeDaemon(t, instead)
			status, _, stderr := ktsn(t, "trace", "--control", socket, "--count", "1", "--pod", test.pod)
			if text := stderr + fmt.Sprint(changes()); status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("status %d, said and asked %q, want %q", status, text, test.want)
			}
		})
	}
}

func TestTraceWide(t *testing.T) {
	socket, _ := fakeDaemon(t, nil)
	_, stdout, _ := ktsn(t, "trace", "--control", socket, "--count", "1", "-o", "wide")
	if want := "on-time           " + exampleIdentity + "  factory/axis-1\n"; !strings.HasSuffix(stdout, want) {
		t.Errorf("printed\n%s\nwant it to end with %q", stdout, want)
	}
}

func TestTraceWithoutPodName(t *testing.T) {
	pods := `{"version":1,"reply":"pods","total":1,"pods":[{"identity":"` + exampleIdentity + `","name":""}]}`
	for _, command := range [][]string{{"status"}, {"top", "--interval", "100ms"}, {"trace", "--count", "1"}} {
		socket, _ := fakeDaemon(t, map[string]string{"pods": pods})
		status, stdout, _ := ktsn(t, append(command, "--control", socket)...)
		if status != commandline.ExitOK || !strings.Contains(stdout, exampleIdentity) {
			t.Errorf("ktsn %s: status %d, printed\n%s", command[0], status, stdout)
		}
	}
}

func TestPodOf(t *testing.T) {
	for argument, test := range map[string]struct {
		given           bool
		namespace, name string
		bad             string
	}{
		"axis-1":         {false, "default", "axis-1", ""},
		"factory/axis-1": {false, "factory", "axis-1", ""},
		"default/axis-1": {true, "default", "axis-1", ""},
		"plant/axis-1":   {true, "", "", "plant/axis-1 is of namespace plant and --namespace says default"},
		"/axis-1":        {false, "", "", "give NAMESPACE/NAME"},
		"factory/":       {false, "", "", "give NAMESPACE/NAME"},
		"a/b/c":          {false, "", "", "give NAMESPACE/NAME"},
	} {
		namespace, name, err := podOf(argument, "default", test.given)
		if namespace != test.namespace || name != test.name || (err == nil) != (test.bad == "") ||
			err != nil && !strings.Contains(err.Error(), test.bad) {
			t.Errorf("%s: %q %q %v", argument, namespace, name, err)
		}
	}
}

func TestTraceErrors(t *testing.T) {
	refusal := `{"version":1,"error":{"field":"%s","message":"%s"}}`
	for name, test := range map[string]struct {
		instead map[string]string
		status  int
		want    string
	}{
		"a pod that is not": {map[string]string{"trace-start": fmt.Sprintf(refusal, "identity", `x: no pod; \"pods\" lists them`)},
			commandline.ExitFailure, "--pod x: no pod; `ktsn status` lists them"},
		"a flow that is not": {map[string]string{"trace-start": fmt.Sprintf(refusal, "flow", `9: no flow; \"flows\" lists them`)},
			commandline.ExitFailure, "--flow 9: no flow; `ktsn status` lists them"},
		"another client": {map[string]string{"trace-start": fmt.Sprintf(refusal, "", "another client traces")},
			commandline.ExitFailure, "another client traces"},
		"messages that were overwritten": {map[string]string{"trace-read": `{"version":1,"reply":"trace","overwritten":5,` +
			`"messages":[{"sequence":6,"flow":1,"outcome":"on-time"}]}`}, commandline.ExitOK, "5 messages were overwritten"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := fakeDaemon(t, test.instead)
			status, _, stderr := ktsn(t, "trace", "--control", socket, "--count", "1")
			if status != test.status || !strings.Contains(stderr, test.want) {
				t.Errorf("status %d, said %q", status, stderr)
			}
		})
	}
}

func TestTraceOfInvalidTimes(t *testing.T) {
	for name, test := range map[string]struct {
		at, due int64
		want    string
	}{
		"later":             {7, 5, "+2"},
		"earlier":           {5, 7, "-2"},
		"further than ever": {1<<63 - 1, -1, "+9223372036854775807"},
		"earlier than ever": {-1 << 63, 1, "-9223372036854775808"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := relative(test.at, test.due); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTopWithoutTerminal(t *testing.T) {
	socket, _ := fakeDaemon(t, nil)
	status, stdout, stderr := ktsn(t, "top", "--control", socket, "--interval", "100ms")
	if status != commandline.ExitOK || stderr != "" {
		t.Errorf("status %d, said %q", status, stderr)
	}
	for _, want := range []string{"0 msg/s, 0.0 late/s, 0.0 drops/s, 3 pending, departure error p50 64ns p99 71ns\n",
		"factory/axis-1  2      0      0.0     0.0     3        64ns  71ns\n",
		"10.42.1.2:40000  10.42.2.2:7788  5   0      0.0     0.0     3        64ns  71ns\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestTopJSON(t *testing.T) {
	socket, _ := fakeDaemon(t, nil)
	_, stdout, _ := ktsn(t, "top", "--control", socket, "--interval", "100ms", "--once", "-o", "json")
	var view struct {
		Flows []struct {
			Number uint64 `json:"flow"`
			P50    *int64 `json:"departure-error-p50-ns"`
		} `json:"flows"`
	}
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Flows) != 2 || *view.Flows[0].P50 != 64 || view.Flows[1].P50 != nil {
		t.Errorf("printed %q, %v", stdout, err)
	}
}

// openTerminal makes a pseudo-terminal: the side of who looks at it, and the side of programs.
func openTerminal(t *testing.T) (viewer, program *os.File) {
	t.Helper()
	viewer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { viewer.Close() })
	number, err := unix.IoctlGetInt(int(viewer.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(viewer.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("the pseudo-terminal cannot be opened: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return viewer, program
}

// readUntil reads what is shown until it has a text.
func readUntil(t *testing.T, from io.Reader, text string) {
	t.Helper()
	var all strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(all.String(), text) {
		count, err := from.Read(buffer)
		if err != nil {
			t.Fatalf("no %q in %q: %v", text, all.String(), err)
		}
		all.Write(buffer[:count])
	}
}

func TestTopRestoresTerminal(t *testing.T) {
	for name, end := range map[string]func(viewer *os.File, top *os.Process) error{
		"after q": func(viewer *os.File, _ *os.Process) error {
			_, err := viewer.WriteString("q")
			return err
		},
		"after SIGINT":  func(_ *os.File, top *os.Process) error { return top.Signal(syscall.SIGINT) },
		"after SIGTERM": func(_ *os.File, top *os.Process) error { return top.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			viewer, program := openTerminal(t)
			socket, _ := fakeDaemon(t, nil)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command(os.Args[0], "top", "--control", socket, "--interval", "100ms")
			command.Env = append(os.Environ(), wholeVariable+"=1")
			command.Stdin, command.Stdout, command.Stderr = program, program, program
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			stop := time.AfterFunc(20*time.Second, func() { _ = command.Process.Kill() })
			defer stop.Stop()
			readUntil(t, viewer, "10.42.1.2:40000")
			if _, err := viewer.WriteString("e"); err != nil {
				t.Fatal(err)
			}
			readUntil(t, viewer, "sorted by error")
			during, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil || during.Lflag&unix.ECHO != 0 {
				t.Errorf("keys are shown, %v", err)
			}
			if err := end(viewer, command.Process); err != nil {
				t.Fatal(err)
			}
			readUntil(t, viewer, screenLeave)
			if err := command.Wait(); err != nil {
				t.Error(err)
			}
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
			}
		})
	}
}

// TestDoctorWithoutCluster compares with `ktsn node check`.
func TestDoctorWithoutCluster(t *testing.T) {
	topology.EnterTestNamespace(t, "node")
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	host, err := os.Hostname()
	testlab.Must(t, err)
	_, checked, _ := ktsn(t, "node", "check", "-o", "json")
	var want []hostcheck.Finding
	testlab.Must(t, json.Unmarshal([]byte(checked), &want))
	status, stdout, stderr := ktsn(t, "doctor", "--node", strings.ToUpper(host)+".example.org", "-o", "json")
	var got []doctor.Finding
	testlab.Must(t, json.Unmarshal([]byte(stdout), &got))
	bad := slices.ContainsFunc(want, func(f hostcheck.Finding) bool { return f.Breaks })
	if len(got) != 1+max(len(want), 1) || got[0].About != "cluster" || (status != commandline.ExitOK) != bad {
		t.Errorf("status %d, said %q, findings %+v; want those of %+v", status, stderr, got, want)
	}
	for name, arguments := range map[string][]string{
		"another node": {"doctor", "--node", "not-" + host}, "a pod": {"doctor", "app"}, "the cluster": {"doctor"},
		"a missing file": {"doctor", "--node", host, "--kubeconfig", "/nowhere/kubeconfig"},
	} {
		status, stdout, stderr := ktsn(t, arguments...)
		if status != commandline.ExitFailure || stdout != "" || strings.Contains(stderr, "`ktsn node check`") != (name == "another node") {
			t.Errorf("%s: status %d, printed %q, said %q", name, status, stdout, stderr)
		}
	}
}
