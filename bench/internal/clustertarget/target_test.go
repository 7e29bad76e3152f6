// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// api is as much of a cluster as a test needs.
type api struct {
	nodes []corev1.Node
	// forbidden are rights that the user does not have.
	forbidden []string
	// namespace is there already when not nil.
	namespace *corev1.Namespace
	network   bool
	// annotated tells that the network is a TSNNetwork, operator that there is one who puts pods on it.
	annotated, operator bool
	// ktsnd tells that it runs; with an operator it does where annotated pods are, and is ready when asked again.
	ktsnd     bool
	askedOnce bool
	// waiting is why the pods do not start; without a reason they do.
	waiting string
	asked   []string
	pods    map[string]*corev1.Pod
}

func usableNode(name string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func (a *api) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	a.asked = append(a.asked, request.Method+" "+request.URL.Path)
	path := request.URL.Path
	answer := func(value any) {
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(value)
	}
	refuse := func(code int, reason metav1.StatusReason) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(code)
		_ = json.NewEncoder(out).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: reason, Code: int32(code), Message: string(reason)})
	}
	switch {
	case path == "/version":
		answer(version.Info{GitVersion: "v1.34.4"})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		var review authorizationv1.SelfSubjectAccessReview
		_ = json.NewDecoder(request.Body).Decode(&review)
		attributes := review.Spec.ResourceAttributes
		asked := right{attributes.Verb, attributes.Group, attributes.Resource, attributes.Subresource, attributes.Namespace}.String()
		review.Status.Allowed = !slices.Contains(a.forbidden, asked)
		answer(review)
	case path == "/api/v1/nodes":
		answer(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: a.nodes})
	case strings.Contains(path, attachmentResource), strings.Contains(path, networkResource):
		if there := map[bool]bool{true: a.annotated, false: a.network}[strings.Contains(path, networkResource)]; !there {
			refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		answer(map[string]string{})
	case path == "/api/v1/namespaces" && a.namespace != nil:
		refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case path == "/api/v1/namespaces":
		a.namespace = &corev1.Namespace{}
		_ = json.NewDecoder(request.Body).Decode(a.namespace)
		answer(a.namespace)
	case strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4 && a.namespace == nil:
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4:
		answer(a.namespace)
		if request.Method == http.MethodDelete {
			a.namespace = nil
		}
	case strings.HasSuffix(path, "/exec"):
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden) // a lab in a cluster that runs nothing
	case strings.HasSuffix(path, "/pods") && request.Method == http.MethodGet:
		answer(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: a.ofChart(request.URL.Query().Get("labelSelector"))})
	default:
		a.servePods(request, answer)
	}
}

// ofChart are the pods of the chart with a label.
func (a *api) ofChart(label string) []corev1.Pod {
	pod := func(container, image string, ready corev1.ConditionStatus) []corev1.Pod {
		return []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}}
	}
	talker := a.pods[talkerTSN]
	switch {
	case label == operatorPods && a.operator:
		return pod(operatorContainer, "registry.example/ktsn-operator:1.2", corev1.ConditionTrue)
	case label == ktsndPods && a.ktsnd && !a.annotated:
		return pod(ktsndContainer, "registry.example/ktsnd:1.2", corev1.ConditionTrue)
	case label == ktsndPods && a.ktsnd && talker != nil && talker.Annotations[v1alpha1.NetworkAnnotation] != "":
		ready := corev1.ConditionFalse
		if a.askedOnce {
			ready = corev1.ConditionTrue
		}
		a.askedOnce = true
		return pod(ktsndContainer, "registry.example/ktsnd:1.2", ready)
	}
	return nil
}

func (a *api) servePods(request *http.Request, answer func(any)) {
	if request.Method == http.MethodPost {
		pod := &corev1.Pod{}
		_ = json.NewDecoder(request.Body).Decode(pod)
		if a.waiting == "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: a.waiting, Message: "no such image"}}}}
		a.pods[pod.Name] = pod
		answer(pod)
		return
	}
	answer(a.pods[filepath.Base(request.URL.Path)])
}

// open opens a lab in a cluster that can only fail.
func open(t *testing.T, cluster *api, where Where, paths ...string) error {
	t.Helper()
	cluster.pods = map[string]*corev1.Pod{}
	server := httptest.NewServer(cluster)
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "k", "cluster": {"server": "`+server.URL+`"}}], "users": [{"name": "u", "user": {"token": "t"}}],
"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if where.Kubeconfig == "" {
		where.Kubeconfig = kubeconfig
	}
	if where.Context == "unreachable" {
		where.Context = ""
		server.Close()
	}
	where.Namespace = "mine"
	if where.Network == "" {
		where.Network = "kubernetsn-system/tsn"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lab, err := Open(ctx, where, &engine.Profile{Paths: paths}, func(string) {})
	if err == nil {
		t.Fatalf("opened %+v", lab)
	}
	return err
}

func TestMissingPartsOfCluster(t *testing.T) {
	two := []corev1.Node{usableNode("b"), usableNode("a")}
	tainted := usableNode("c")
	tainted.Spec.Taints = []corev1.Taint{{Effect: corev1.TaintEffectNoSchedule}}
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cluster api
		where   Where
		path    string
		want    string
	}{
		"no kubeconfig":      {api{}, Where{Kubeconfig: "/nowhere/config"}, "host", "read the kubeconfig: stat /nowhere/config: no such file"},
		"no such context":    {api{}, Where{Context: "other"}, "host", `context "other" does not exist`},
		"nobody there":       {api{}, Where{Context: "unreachable"}, "host", "does not answer: dial tcp 127.0.0.1:"},
		"one node":           {api{nodes: []corev1.Node{usableNode("a"), tainted}}, Where{}, "host", "1 of the cluster's 2 nodes are ready and take pods"},
		"rights are missing": {api{nodes: two, forbidden: []string{"create namespaces", "create pods/exec in namespace mine"}}, Where{}, "host", "may not create namespaces, create pods/exec in namespace mine; have a role made"},
		"no network":         {api{nodes: two}, Where{}, "tsn", "the cluster has no network kubernetsn-system/tsn for path tsn, neither TSNNetwork tsn nor NetworkAttachmentDefinition kubernetsn-system/tsn"},
		"no TSNNetwork":      {api{nodes: two, network: true}, Where{Network: "tsn"}, "tsn", "the cluster has no TSNNetwork tsn for path tsn; make it"},
		"a network of three": {api{nodes: two}, Where{Network: "a/b/c"}, "tsn", `--network "a/b/c" is neither the NAME`},
		"half a network":     {api{nodes: two}, Where{Network: "a/"}, "tsn", `--network "a/" is neither the NAME`},
		"no ktsnd":           {api{nodes: two, network: true}, Where{}, "tsn", "no ktsnd is ready on node a"},
		"no operator":        {api{nodes: two, annotated: true}, Where{Network: "tsn"}, "tsn", "no operator is ready in namespace kubernetsn-system, so no pod can be on TSNNetwork tsn"},
		"an operator elsewhere, and no rights": {api{nodes: two, annotated: true, waiting: "ErrImagePull",
			forbidden: []string{"list pods in namespace other"}}, Where{Network: "other/tsn"}, "tsn", "cannot start: ErrImagePull"},
		"a namespace of somebody else": {api{nodes: two, namespace: &corev1.Namespace{}}, Where{}, "host",
			"namespace mine is in use"},
		"a namespace of a bench that runs": {api{nodes: two, namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{managedBy: manager}, Annotations: map[string]string{madeBy: self}}}}, Where{}, "host", "namespace mine is in use"},
		"an image that is nowhere": {api{nodes: two, waiting: "ErrImagePull"}, Where{}, "host", "cannot start: ErrImagePull: no such image; load the image"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := test.cluster
			before := cluster.namespace
			err := open(t, &cluster, test.where, test.path)
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if cluster.namespace != before {
				t.Errorf("it leaves namespace %+v", cluster.namespace)
			}
		})
	}
}

func TestPodsAreOnNetwork(t *testing.T) {
	two := []corev1.Node{usableNode("a"), usableNode("b")}
	byHand := map[string]string{networksWanted: "kubernetsn-system/tsn@tsn0"}
	byAnnotation := map[string]string{v1alpha1.NetworkAnnotation: "tsn"}
	for name, test := range map[string]struct {
		cluster     api
		network     string
		annotations map[string]string
		volumes     int
	}{
		"a NetworkAttachmentDefinition":          {api{network: true, ktsnd: true}, "kubernetsn-system/tsn", byHand, 1},
		"a TSNNetwork":                           {api{annotated: true, operator: true, ktsnd: true}, "tsn", byAnnotation, 0},
		"a TSNNetwork, and where the chart is":   {api{annotated: true, operator: true, ktsnd: true}, "kubernetsn-system/tsn", byAnnotation, 0},
		"a TSNNetwork goes before an attachment": {api{annotated: true, operator: true, ktsnd: true, network: true}, "kubernetsn-system/tsn", byAnnotation, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := test.cluster
			cluster.nodes = two
			// It gets as far as to the first program in a pod.
			if err := open(t, &cluster, Where{Network: test.network}, "tsn", "primary"); !strings.Contains(err.Error(), "ask ktsnd for its status") {
				t.Fatal(err)
			}
			for _, name := range []string{talkerTSN, listenerPod, talkerPod} {
				pod, annotations, volumes := cluster.pods[name], test.annotations, test.volumes
				switch name {
				case talkerPod:
					annotations, volumes = nil, 0
				case listenerPod:
					volumes = 0
				}
				if !maps.Equal(pod.Annotations, annotations) || len(pod.Spec.Volumes) != volumes {
					t.Errorf("%s: annotations %v, %d volumes; want %v, %d", name, pod.Annotations, len(pod.Spec.Volumes), annotations, volumes)
				}
				if got := pod.Spec.Containers[0].Image; got != "registry.example/tsnperf:1.2" {
					t.Errorf("%s has image %s", name, got)
				}
			}
			if cluster.annotated && !cluster.askedOnce {
				t.Error("ktsnd was not looked for")
			}
			if cluster.namespace != nil {
				t.Errorf("it leaves %+v", cluster.namespace)
			}
		})
	}
}

func TestNamespaceOfKilledBenchIsRemoved(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := strings.Fields(self)
	dead[2] += "0" // the same number, begun at another time
	left := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{managedBy: manager},
		Annotations: map[string]string{madeBy: strings.Join(dead, " ")}}}
	cluster := &api{nodes: []corev1.Node{usableNode("a"), usableNode("b")}, namespace: left, waiting: "ErrImagePull"}
	if err := open(t, cluster, Where{}, "host"); !strings.Contains(err.Error(), "ErrImagePull") {
		t.Error(err)
	}
	if created := slices.Index(cluster.asked, "POST /api/v1/namespaces"); created < slices.Index(cluster.asked, "DELETE /api/v1/namespaces/mine") {
		t.Errorf("asked %q", cluster.asked)
	}
	if cluster.namespace != nil {
		t.Errorf("it leaves %+v", cluster.namespace)
	}
}

func TestLives(t *testing.T) {
	for identity, want := range map[string]bool{"": true, "another-boot 1 2": true, "nonsense": true} {
		if lives(identity) != want {
			t.Errorf("%q lives: %v", identity, !want)
		}
	}
}

func TestMeasureClocks(t *testing.T) {
	same := clocks{there: 30_000, back: 20_000}
	if same.bound() != 30_000 || same.difference() != 5_000 || same.known() != 25_000 || same.warning() != "" {
		t.Errorf("bound %v, difference %v ± %v: %s", same.bound(), same.difference(), same.known(), same.warning())
	}
	var both comparison
	both.add(same)
	both.add(clocks{there: 50_000, back: 2_000})
	if got := both.describe(); got.ErrorNs != 50_000 || !strings.Contains(got.About, "the last of 2 comparisons, by which it was ahead by 5.00 to 24.0 µs") {
		t.Errorf("%+v", got)
	}
	apart := clocks{there: 37_000_030_000, back: -36_999_980_000}
	if apart.known() != 25_000 || apart.difference() != 37_000_005_000 || !strings.Contains(apart.warning(), "mean nothing") {
		t.Errorf("difference %v ± %v: %s", apart.difference(), apart.known(), apart.warning())
	}
}

func TestRunReadsOutput(t *testing.T) {
	status, err := readStatus(`{"status": {"scheduler": "SCHED_FIFO", "scheduler-priority": 50, "spin-ns": 120000, "processor-time-ns": 7,
		"counters": {"late-gate": 2, "late-taken": 3, "taken": 9, "sent": 8}}}`)
	if err != nil || status.Counters.Late() != 5 || status.ProcessorTimeNs != 7 || status.SpinNs != 120_000 || status.SchedulerPriority != 50 {
		t.Errorf("status %+v, %v", status, err)
	}
	if _, err := readStatus("{}"); err == nil {
		t.Error("no status is no error")
	}
	count, err := received("latency p50 3\nlistener: received 12, foreign 0, invalid 0\n")
	if err != nil || *count != 12 {
		t.Errorf("received %v, %v", count, err)
	}
	if _, err := received("nothing"); err == nil {
		t.Error("nothing is no error")
	}
}

func TestForeignLateMessagesAreIgnored(t *testing.T) {
	talkers := []traffic.Talker{{Sent: make([]tsnperf.Sent, 3)}, {Sent: []tsnperf.Sent{{}, {Errno: 11}}}} // four were handed over
	run := engine.Run{Key: results.Key{Path: results.PathTSN, CycleNs: time.Millisecond.Nanoseconds()}, Messages: 4}
	for name, test := range map[string]struct {
		before, after *counted
		late          int
		cores         float64
	}{
		"alone on the node":             {&counted{5, 100, 1e6}, &counted{7, 104, 3e6}, 2, 0.5},
		"one was dropped":               {&counted{5, 100, 1e6}, &counted{5, 103, 2e6}, 0, 0.25},
		"another pod sent one, as well": {&counted{5, 100, 0}, &counted{7, 105, 0}, -1, 0},
		"ktsnd began anew":              {&counted{5, 100, 0}, &counted{6, 4, 0}, -1, 0},
		"ktsnd began anew, unnoticed":   {&counted{0, 0, 2e6}, &counted{0, 4, 1e6}, -1, 0},
		"nobody could ask":              {nil, nil, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &traffic.Observation{CPUCores: map[string]float64{}}
			since(test.before, test.after, talkers).note(run, seen)
			cores, known := seen.CPUCores["ktsnd"]
			if (seen.Late == nil) != (test.late < 0) || seen.Late != nil && *seen.Late != uint64(test.late) || known != (test.late >= 0) ||
				cores != test.cores {
				t.Errorf("late %v, cores %v, want %d and %v", seen.Late, seen.CPUCores, test.late, test.cores)
			}
		})
	}
}

func TestReadSummary(t *testing.T) {
	text, err := os.ReadFile("testdata/summary.json")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := readSummary(text, []string{"ktsn-bench"})
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 2 || samples[0].Pod != "" || samples[0].CPUNs == 0 || samples[1].Container != container || samples[1].UID == "" {
		t.Errorf("samples %+v", samples)
	}
	if usage := results.UsageOf(samples); len(usage) != 0 {
		t.Errorf("of what was counted once, %+v", usage)
	}
}
