// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/workloads"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

const (
	// maxConcurrentQueries limits the clusters that are asked at a time, queryTimeout how long each may take.
	maxConcurrentQueries = 8
	queryTimeout         = 5 * time.Second
)

// Finder serves one caller.
type Finder struct {
	// Lister lists for the caller, and Config acts as the caller.
	Lister    hub.Lister
	Config    *rest.Config
	Workloads *workloads.Service
}

// place is a cluster that has workloads of a namespace.
type place struct{ cluster, namespace string }

// Where returns where the pods of workloads run: of all, of a namespace or of one workload.
func (f *Finder) Where(ctx context.Context, namespace, workload string) (*federation.Pods, error) {
	list, reports, err := f.Workloads.Reported(ctx, namespace)
	if err != nil {
		return nil, err
	}
	reached, err := f.unreachableReasons(ctx)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(list.Items, func(w federation.Workload) bool { return workload != "" && w.Name != workload })
	answers := f.queryAll(ctx, unreported(chosen, reports), reached)
	all := &federation.Pods{Items: []federation.Pod{}, Unseen: []federation.Unseen{}}
	for i := range chosen {
		for _, cluster := range chosen[i].Clusters {
			if status, has := reports[nameOf(&chosen[i])][cluster]; has {
				addReported(all, &chosen[i], cluster, &status)
			} else {
				addAnswered(all, &chosen[i], cluster, answers[place{cluster, chosen[i].Namespace}])
			}
		}
	}
	slices.SortFunc(all.Items, func(a, b federation.Pod) int {
		return cmp.Or(strings.Compare(a.Workload, b.Workload), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func nameOf(workload *federation.Workload) types.NamespacedName {
	return types.NamespacedName{Namespace: workload.Namespace, Name: workload.Name}
}

// unreported returns the places for which the cluster itself reports nothing.
func unreported(chosen []federation.Workload, reports workloads.Reports) []place {
	var all []place
	for i := range chosen {
		for _, cluster := range chosen[i].Clusters {
			at := place{cluster, chosen[i].Namespace}
			if _, has := reports[nameOf(&chosen[i])][cluster]; !has && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

// addReported adds the pods that a cluster reports. Karmada copies the report; no API server has validated it.
func addReported(all *federation.Pods, workload *federation.Workload, cluster string, status *tsn.TSNWorkloadStatus) {
	named := status.Pods[:min(len(status.Pods), tsn.MaxWorkloadPods)]
	for i := range named {
		all.Items = append(all.Items, describe(&named[i], cluster, nameOf(workload).String()))
	}
	total, ready := max(status.Total, 0), max(status.Ready, 0)
	if more := total - int32(len(named)); more > 0 {
		all.Unseen = append(all.Unseen, federation.Unseen{Workload: nameOf(workload).String(), Cluster: cluster, Replicas: &total, Ready: &ready,
			Reason: fmt.Sprintf("the cluster names %d pods of a workload at most; %d more are there", tsn.MaxWorkloadPods, more)})
	}
}

// addAnswered adds the pods in a cluster's answer, or the reason why there is none.
func addAnswered(all *federation.Pods, workload *federation.Workload, cluster string, reply answer) {
	if reply.reason != "" {
		all.Unseen = append(all.Unseen, unseen(workload, cluster, reply.reason))
		return
	}
	for i := range reply.pods {
		if reply.pods[i].Labels[tsn.WorkloadLabel] == workload.Name {
			pod := podstatus.Place(&reply.pods[i])
			all.Items = append(all.Items, describe(&pod, cluster, nameOf(workload).String()))
		}
	}
}

// unreachableReasons returns by cluster why the hub does not reach it, "" if it does.
func (f *Finder) unreachableReasons(ctx context.Context) (map[string]string, error) {
	var list v1alpha1.ClusterList
	if err := f.Lister.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	reasons := map[string]string{}
	for i := range list.Items {
		cluster := &list.Items[i]
		switch {
		case !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterConditionReady):
			reasons[cluster.Name] = "the cluster is not ready"
		case cluster.Spec.SyncMode == v1alpha1.Push && cluster.Spec.ImpersonatorSecretRef == nil:
			reasons[cluster.Name] = "users of the hub may not ask the cluster, which joined without a proxy"
		case cluster.Spec.ImpersonatorSecretRef == nil || cluster.Spec.APIEndpoint == "":
			reasons[cluster.Name] = "the hub does not reach the cluster, whose agent gave it no credentials (mode Pull)"
		case cluster.Spec.ImpersonatorSecretRef.Namespace != hub.ClusterNamespace || cluster.Spec.ImpersonatorSecretRef.Name != hub.Impersonator(cluster.Name):
			// The agent can write anything; Karmada would send the credentials of another member to the address in the
			// Cluster.
			reasons[cluster.Name] = "the cluster names credentials that are not its own"
		default:
			reasons[cluster.Name] = ""
		}
	}
	return reasons, nil
}

// answer has the pods of a namespace in a cluster, or the reason why they are unknown.
type answer struct {
	pods   []corev1.Pod
	reason string
}

// queryAll asks clusters, some at a time.
func (f *Finder) queryAll(ctx context.Context, asked []place, reached map[string]string) map[place]answer {
	given := make([]answer, len(asked))
	var group errgroup.Group
	group.SetLimit(maxConcurrentQueries)
	for i, at := range asked {
		reason, known := reached[at.cluster]
		switch {
		case !known:
			given[i].reason = "the cluster is no longer a member"
		case reason != "":
			given[i].reason = reason
		default:
			group.Go(func() error { given[i] = f.query(ctx, at); return nil })
		}
	}
	_ = group.Wait() // answers have the errors
	answers := map[place]answer{}
	for i, at := range asked {
		answers[at] = given[i]
	}
	return answers
}

// query asks a cluster through Karmada's proxy.
func (f *Finder) query(ctx context.Context, at place) answer {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	config := rest.CopyConfig(f.Config)
	config.Host = strings.TrimSuffix(config.Host, "/") + "/apis/cluster.karmada.io/v1alpha1/clusters/" + at.cluster + "/proxy"
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	asker, err := rest.RESTClientFor(config)
	if err != nil {
		return answer{reason: err.Error()}
	}
	var list corev1.PodList
	err = asker.Get().Namespace(at.namespace).Resource("pods").Param("labelSelector", tsn.WorkloadLabel).Do(ctx).Into(&list)
	if err != nil {
		return answer{reason: "the cluster does not list its pods: " + err.Error()}
	}
	return answer{pods: list.Items}
}

// unseen returns the counts that the hub knows of a workload in a cluster that it does not reach.
func unseen(workload *federation.Workload, cluster, reason string) federation.Unseen {
	unseen := federation.Unseen{Workload: workload.Namespace + "/" + workload.Name, Cluster: cluster, Reason: reason}
	for _, object := range workload.Objects {
		for _, on := range object.Clusters {
			if on.Cluster == cluster && on.Replicas != nil {
				unseen.Replicas, unseen.Ready = add(unseen.Replicas, on.Replicas), add(unseen.Ready, on.Ready)
			}
		}
	}
	return unseen
}

func add(sum, more *int32) *int32 {
	total := int64(*more)
	if sum != nil {
		total += int64(*sum)
	}
	bounded := int32(min(total, math.MaxInt32))
	return &bounded
}
