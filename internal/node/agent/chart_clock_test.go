// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/node/ptp"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// clockOf returns ktsn-ptp's arguments in a DaemonSet of the chart, and its container.
func clockOf(t *testing.T, objects [][]byte, name string) (*ptp.Runner, *corev1.Container, *appsv1.DaemonSet) {
	t.Helper()
	set := daemonSet(t, objects, name)
	container := containerOf(t, &set.Spec.Template.Spec, "clock")
	runner, err := ptp.Parse(container.Args, io.Discard)
	if err != nil {
		t.Fatalf("%q: %v", container.Args, err)
	}
	checkMounts(t, &set.Spec.Template.Spec)
	return runner, container, set
}

func TestChartHasNoClockByDefault(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	if bytes.Contains(bytes.Join(objects, nil), []byte("kind: DaemonSet\nmetadata:\n  name: ktsn-clock")) {
		t.Error("there is a DaemonSet of clocks with clock.mode external")
	}
}

func TestChartClockOptions(t *testing.T) {
	objects, err := render(t, "--set", "clock.mode=ptp,uplink.interface=eth7")
	testlab.Must(t, err)
	runner, container, set := clockOf(t, objects, "ktsn-clock")
	if o := runner.Options; !slices.Equal(o.Devices, []string{"eth7"}) || o.Role != ptp.RoleSender || o.Profile != ptp.ProfileDefault ||
		o.Priority1 != nil || o.UTCOffset != ptp.CurrentUTCOffset || o.FreeRunning || o.Stamping != ptp.StampAuto {
		t.Errorf("by default it reads %+v", o)
	}
	// The nodes' clocks are kept before any pod of a network is there.
	if spec := set.Spec.Template.Spec; !spec.HostNetwork || len(spec.NodeSelector) != 2 || spec.NodeSelector["kubernetes.io/os"] != "linux" || len(spec.Tolerations) == 0 {
		t.Errorf("it runs on %v", spec.NodeSelector)
	}
	// The watcher must find the socket of ptp4l, and ptp4l the watcher.
	for path, at := range map[string]string{ptp.DefaultRunDir: "ptp", clock.DefaultLocalDir: "watchers"} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path && m.Name == at }) ||
			!slices.ContainsFunc(set.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == at && v.HostPath.Path == path }) {
			t.Errorf("the node's %s is not mounted there", path)
		}
	}
	if !slices.Contains(clock.DefaultPTPSockets, runner.RunDir+"/ptp4l") {
		t.Errorf("the agent does not look for ptp4l in %s", runner.RunDir)
	}
	objects, err = render(t, "--set-json", `clock={"mode":"ptp","ptp":{"profile":"gptp","domain":20,"priority2":9,"servo":"linreg","timeStamping":"hardware",`+
		`"utcOffset":0,"extraConfig":{"tx_timestamp_timeout":"100","step_threshold":"0.5"},"interfaces":[`+
		`{"name":"gm","nodeSelector":{"clock":"gm"},"interface":"eth1","role":"grandmaster","priority1":0},`+
		`{"name":"rest","nodeSelector":{"clock":"rest","kubernetes.io/os":"linux"},"interfaces":["eth2","eth3"],"role":"receiver","priority2":11}]}}`)
	testlab.Must(t, err)
	gm, _, gmSet := clockOf(t, objects, "ktsn-clock-gm")
	if o := gm.Options; !slices.Equal(o.Devices, []string{"eth1"}) || o.Role != ptp.RoleGrandmaster || o.Profile != ptp.ProfileGPTP || o.Domain != 20 ||
		o.Priority1 == nil || *o.Priority1 != 0 || o.Priority2 == nil || *o.Priority2 != 9 || o.Servo != "linreg" || o.Stamping != ptp.StampHardware ||
		o.UTCOffset != 0 || fmt.Sprint(o.Extra) != "[{step_threshold 0.5} {tx_timestamp_timeout 100}]" {
		t.Errorf("the grandmaster reads %+v", o)
	}
	rest, _, restSet := clockOf(t, objects, "ktsn-clock-rest")
	if o := rest.Options; !slices.Equal(o.Devices, []string{"eth2", "eth3"}) || o.Role != ptp.RoleReceiver || o.Priority1 != nil || *o.Priority2 != 11 {
		t.Errorf("the others read %+v", o)
	}
	if got := restSet.Spec.Template.Spec.NodeSelector; len(got) != 3 || got["clock"] != "rest" {
		t.Errorf("the others run on %v", got)
	}
	if gmSet.Spec.Selector.MatchLabels["kubernetsn.io/clock"] == restSet.Spec.Selector.MatchLabels["kubernetsn.io/clock"] {
		t.Error("the DaemonSets have pods in common")
	}
}

func TestChartClockPrivileges(t *testing.T) {
	for name, test := range map[string]struct {
		values     string
		privileged bool
		rights     string
	}{
		"for the clocks of cards": {"clock.mode=ptp", true, ""},
		"with software":           {"clock.mode=ptp,clock.ptp.timeStamping=software", false, "[NET_ADMIN NET_RAW NET_BIND_SERVICE SYS_TIME]"},
		"to measure only":         {"clock.mode=ptp,clock.ptp.freeRunning=true", false, "[NET_ADMIN NET_RAW NET_BIND_SERVICE]"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, "--set", test.values)
			testlab.Must(t, err)
			runner, container, _ := clockOf(t, objects, "ktsn-clock")
			security := container.SecurityContext
			privileged := security.Privileged != nil && *security.Privileged
			if privileged != test.privileged || !*security.ReadOnlyRootFilesystem {
				t.Errorf("privileged is %v", privileged)
			}
			if !privileged && (fmt.Sprint(security.Capabilities.Add) != test.rights || *security.AllowPrivilegeEscalation) {
				t.Errorf("it has %v", security.Capabilities.Add)
			}
			if runner.FreeRunning != strings.Contains(test.values, "freeRunning") {
				t.Errorf("free running is %v", runner.FreeRunning)
			}
		})
	}
}

// The removal waits for the DaemonSets of clocks, and may delete each of them.
func TestChartRemovalEndsClocks(t *testing.T) {
	for values, want := range map[string][]string{
		"clock.mode=ptp":      {"ktsn-clock"},
		"clock.mode=external": {"ktsn-clock"}, // it may have been kept through an upgrade
		"clock.mode=ptp,clock.ptp.interfaces[0].name=a,clock.ptp.interfaces[0].nodeSelector.c=a,clock.ptp.interfaces[1].name=b,clock.ptp.interfaces[1].nodeSelector.c=b": {"ktsn-clock-a", "ktsn-clock-b"},
	} {
		objects, err := render(t, "--set", values)
		testlab.Must(t, err)
		var role rbacv1.Role
		object(t, objects, "Role", "ktsn-removal", &role)
		var job batchv1.Job
		object(t, objects, "Job", "ktsn-removal", &job)
		arguments := strings.Join(containerOf(t, &job.Spec.Template.Spec, "remove").Args, " ")
		for _, name := range want {
			if !slices.Contains(role.Rules[0].ResourceNames, name) || !strings.Contains(arguments, ","+name) {
				t.Errorf("%s: %s may end %v, and is called with %s", values, name, role.Rules[0].ResourceNames, arguments)
			}
		}
		if !strings.Contains(defaultSelector, "clock") {
			t.Error("their pods are not waited for")
		}
	}
}

func TestChartRejectsConflictingClocks(t *testing.T) {
	const entry = "clock.mode=ptp,clock.ptp.interfaces[0]."
	for values, sentence := range map[string]string{
		entry + "nodeSelector.x=y,clock.ptp.interfaces[1].nodeSelector.x=z":                      "two entries are called all",
		entry + "name=a,clock.ptp.interfaces[1].name=b,clock.ptp.interfaces[1].nodeSelector.x=y": "entry a has no nodeSelector",
		entry + "interface=eth1,clock.ptp.interfaces[0].interfaces[0]=eth2":                      "has interface and interfaces",
		"clock.mode=ptp,clock.ptp.profile=gptp,clock.ptp.transport=UDPv4":                        "802.1AS has no messages over IP",
	} {
		if _, err := render(t, "--set", values); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s: %v, want %q in it", values, err, sentence)
		}
	}
}
