"""What of TensorFlowOnSpark's modules needs neither Spark nor a cluster."""

import argparse
import contextlib
import getpass
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

from eventually import wait_for
from tensorflowonspark import TFCluster, TFManager, TFNode, TFSparkNode, compat, gpu_info, marker, reservation, util
from tensorflowonspark import _example
from tensorflowonspark._elements import Elements
from tensorflowonspark._node_manager import NodeManager


class PathTest(unittest.TestCase):
    def test_hdfs_path(self):
        user = getpass.getuser()
        for file_system, path, absolute in (
            ("file://", "hdfs://foo/bar", "hdfs://foo/bar"),
            ("hdfs://n:8020", "s3a://foo/bar", "s3a://foo/bar"),
            ("file://", "/foo/bar", "file:///foo/bar"),
            ("hdfs://n:8020", "/foo/bar", "hdfs://n:8020/foo/bar"),
            ("file://", "foo/bar", "file:///work/foo/bar"),
            ("hdfs://n:8020", "foo/bar", f"hdfs://n:8020/user/{user}/foo/bar"),
            ("viewfs://n", "foo/bar", f"viewfs://n/user/{user}/foo/bar"),
            ("s3a://bucket", "foo/bar", "s3a://bucket/foo/bar"),
        ):
            context = TFSparkNode.TFNodeContext(defaultFS=file_system, working_dir="/work")
            self.assertEqual(context.absolute_path(path), absolute)
            self.assertEqual(TFNode.hdfs_path(context, path), absolute)


class ContextTest(unittest.TestCase):
    def test_it_counts_its_workers(self):
        spec = {"ps": ["a:1"], "chief": ["b:1"], "worker": ["c:1", "d:1"], "evaluator": ["e:1"]}
        context = TFSparkNode.TFNodeContext(2, "worker", 0, spec)
        self.assertEqual((context.num_workers, context.executor_id, context.worker_num), (3, 2, 2))

    def test_release_port(self):
        context = TFSparkNode.TFNodeContext(tmp_socket=socket.socket())
        reserved = context.tmp_socket
        context.release_port()
        self.assertIsNone(context.tmp_socket)
        self.assertEqual(reserved.fileno(), -1)
        with self.assertLogs(level="WARNING"):
            context.release_port()

    def test_what_was_deprecated_says_so(self):
        context = TFSparkNode.TFNodeContext()
        for call in (
            lambda: context.start_cluster_server(),
            lambda: context.export_saved_model(None, "", "", {}),
            lambda: TFNode.next_batch(None, 1),
            lambda: TFNode.batch_results(None, []),
            lambda: TFNode.terminate(None),
        ):
            with self.assertRaisesRegex(Exception, "^DEPRECATED: "):
                call()


class DataFeedOfAManagerTest(unittest.TestCase):
    """DataFeed over a TFManager of the program's own."""

    def setUp(self):
        self.manager = TFManager.start(b"secret", ["input", "output"])
        self.addCleanup(self.manager.shutdown)

    def _put(self, *items):
        for item in items:
            self.manager.get_queue("input").put(item)

    def test_batches_end_with_the_end(self):
        self._put(*range(10), None)
        feed = TFNode.DataFeed(self.manager)
        self.assertEqual(feed.next_batch(2), [0, 1])
        self.assertFalse(feed.should_stop())
        self.assertEqual(feed.next_batch(4), [2, 3, 4, 5])
        self.assertEqual(feed.next_batch(10), [6, 7, 8, 9])
        self.assertTrue(feed.should_stop() and feed.done_feeding)

    def test_in_inference_a_batch_ends_with_its_partition(self):
        self._put(1, 2, marker.EndPartition(), 3, None)
        self.assertEqual(TFNode.DataFeed(self.manager, train_mode=False).next_batch(5), [1, 2])
        self._put(marker.EndPartition(), 4, None)
        self.assertEqual(TFNode.DataFeed(self.manager).next_batch(5), [3])
        self.assertEqual(TFNode.DataFeed(self.manager).next_batch(5), [4])

    def test_columns_become_tensors_and_results_go_out(self):
        self._put((1, 2.5), (2, 3.5), None)
        feed = TFNode.DataFeed(self.manager, input_mapping={"a": "x", "b": "y"})
        self.assertEqual(feed.next_batch(5), {"x": [1, 2], "y": [2.5, 3.5]})
        feed.batch_results(["one", "two"])
        self.assertEqual([self.manager.get_queue("output").get() for _ in range(2)], ["one", "two"])

    def test_another_process_connects_and_sees_values(self):
        self.manager.set("state", "running")
        other = TFManager.connect(self.manager.address, b"secret")
        self.assertEqual(str(other.get("state")), "'running'")
        other.get_queue("input").put("from there")
        self.assertEqual(self.manager.get_queue("input").get(), "from there")
        self.manager.get_queue("input").task_done()
        other.get_queue("input").join()


class _Feed:
    """A feed of Millrace, whose batches a test gives."""

    def __init__(self, mode):
        self.mode = mode
        self.results = []
        self.asked = []
        self._changed = threading.Condition()
        self._batches = []
        self._ended = False

    def give(self, *elements):
        with self._changed:
            self._batches.append(list(elements))
            self._changed.notify_all()

    def end(self):
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def next(self, rows, most):
        with self._changed:
            self.asked.append((rows, most))
            self._changed.wait_for(lambda: self._batches or self._ended)
            if not self._batches:
                return None
            elements = self._batches.pop(0)
        return types.SimpleNamespace(has_objects=True, objects=lambda: elements)

    @property
    def should_stop(self):
        with self._changed:
            return self._ended and not self._batches

    def object_results(self, results):
        self.results.append(list(results))

    terminate = end


class _Node:
    def __init__(self):
        self.feeds = {}

    def feed(self, queue, mode="train"):
        return self.feeds.setdefault(queue, _Feed(mode))


class DataFeedOfANodeTest(unittest.TestCase):
    def setUp(self):
        self.node = _Node()
        self.manager = NodeManager(self.node, ["input", "output", "error"])
        self.feed = TFNode.DataFeed(self.manager, False)
        self.train = self.node.feeds["input"]
        self.inference = self.node.feeds["input.inference"]

    def _end(self):
        self.train.end()
        self.inference.end()

    def test_training_and_inference_come_through_one_feed(self):
        self.train.give(1, 2, 3)
        self.assertEqual(self.feed.next_batch(2), [1, 2])
        self.assertEqual(self.feed.next_batch(2), [3], "what is there; no more is asked for before it is used")
        self.inference.give(7, 8)
        self.assertEqual(self.feed.next_batch(2), [7, 8])
        self.feed.batch_results([49, 64])
        self.assertEqual(self.inference.results, [[49, 64]])
        self._end()
        self.assertEqual(self.feed.next_batch(2), [])
        self.assertTrue(self.feed.should_stop() and self.feed.done_feeding)

    def test_the_end_is_seen_without_asking_again(self):
        self.train.give(1)
        self.assertEqual(self.feed.next_batch(1), [1])
        self.assertFalse(self.feed.should_stop())
        self._end()
        wait_for(self.feed.should_stop, "the end")
        self.assertTrue(self.feed.done_feeding)

    def test_nothing_is_asked_for_before_what_came_is_used(self):
        self.train.give(*range(10))
        for i in range(10):
            self.assertEqual(self.feed.next_batch(1), [i])
        self.assertEqual(self.train.asked, [(1, 1024)])

    def test_results_are_sent_together_and_before_more_is_asked_for(self):
        self.inference.give(1, 2, 3)
        for i in (1, 2, 3):
            self.assertEqual(self.feed.next_batch(1), [i])
            self.feed.batch_results([i * i])
        self.assertEqual(self.inference.results, [[1, 4, 9]])
        self.inference.give(4, 5)
        self.feed.next_batch(1)
        self.feed.batch_results([16])
        self.assertEqual(self.inference.results, [[1, 4, 9]])
        self.feed.terminate()
        self.assertEqual(self.inference.results, [[1, 4, 9], [16]])

    def test_an_error_of_the_feed_is_raised_to_the_program(self):
        self.train.next = unittest.mock.Mock(side_effect=OSError("broken"))
        with self.assertRaisesRegex(OSError, "broken"):
            self.feed.next_batch(1)

    def test_its_manager_has_queues_and_values(self):
        self.assertEqual(str(self.manager.get("state")), "'running'")
        self.assertEqual(self.manager.get("state"), "running")
        self.assertIsNone(self.manager.get_queue("control"))
        self.inference.give("a")
        self.assertEqual(self.manager.get_queue("input").get(), "a")
        self.manager.get_queue("input").task_done()
        self.manager.get_queue("output").put("b")
        self.assertEqual(self.inference.results, [["b"]])
        self._end()
        self.assertIsNone(self.manager.get_queue("input").get())
        self.feed.terminate()
        self.assertEqual(str(self.manager.get("state")), "'terminating'")
        errors = self.manager.get_queue("error")
        self.assertTrue(errors.empty())
        errors.put("a traceback")
        self.assertEqual((errors.empty(), self.manager.errors), (False, ["a traceback"]))

    def test_a_queue_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(Exception, "Queue 'other' not found on this node"):
            TFNode.DataFeed(self.manager, qname_in="other")

    def test_rows_of_a_dataframe_are_read_by_column(self):
        column = types.SimpleNamespace(to_pylist=lambda: [1, 2])
        pyspark = types.ModuleType("pyspark.sql")
        pyspark.Row = lambda *names: lambda *values: tuple(zip(names, values))
        with unittest.mock.patch.dict(sys.modules, {"pyspark": types.ModuleType("pyspark"), "pyspark.sql": pyspark}):
            batch = type("Batch", (dict,), {"has_objects": False})(x=column, y=column)
            self.train.next = lambda rows, most: batch
            self.assertEqual(self.feed.next_batch(1), [(("x", 1), ("y", 1))])

    def test_whoever_asks_gets_the_same_elements(self):
        self.assertIsInstance(self.manager.elements("input"), Elements)
        self.train.give(1, 2)
        self.assertEqual(self.feed.next_batch(1), [1])
        self.assertEqual(TFNode.DataFeed(self.manager).next_batch(1), [2])


class ReservationTest(unittest.TestCase):
    def _server(self, count):
        server = reservation.Server(count)
        address = server.start()
        self.addCleanup(server.stop)
        return server, ("127.0.0.1", address[1])

    def test_reservation_class(self):
        reservations = reservation.Reservations(2)
        reservations.add({"node": 1})
        self.assertEqual((reservations.done(), reservations.remaining()), (False, 1))
        reservations.add({"node": 2})
        self.assertEqual((reservations.done(), reservations.remaining()), (True, 0))
        self.assertEqual(reservations.get(), [{"node": 1}, {"node": 2}])

    def test_all_meet_and_learn_of_each_other(self):
        server, address = self._server(4)
        met = []

        def reserve(number):
            client = reservation.Client(address)
            self.addCleanup(client.close)
            self.assertEqual(client.register({"node": number, "authkey": bytes([number])}), "OK")
            met.append(client.await_reservations())

        threads = [threading.Thread(target=reserve, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for who in [*met, server.await_reservations(None)]:
            found = sorted(who, key=lambda each: each["node"])
            self.assertEqual(found, [{"node": i, "authkey": bytes([i])} for i in range(4)])

    def test_a_client_stops_the_server(self):
        server, address = self._server(1)
        client = reservation.Client(address)
        self.addCleanup(client.close)
        self.assertEqual(client.request_stop(), "OK")
        self.assertTrue(server.done)

    def test_what_is_no_message_ends_its_connection_only(self):
        _, address = self._server(1)
        for hostile in (struct.pack(">I", 1 << 31), struct.pack(">I", 3) + b"\x80\x05.", b"\0\0\0\2{}"):
            with socket.create_connection(address, timeout=20) as stranger:
                stranger.sendall(hostile)
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(stranger.recv(1), b"")
        client = reservation.Client(address)
        self.addCleanup(client.close)
        self.assertEqual(client.get_reservations(), [])

    def test_await_reservations_ends(self):
        server, _ = self._server(2)
        with self.assertRaisesRegex(Exception, "^timed out waiting for reservations to complete$"):
            server.await_reservations(None, timeout=0)
        spark = unittest.mock.Mock()
        with self.assertRaisesRegex(Exception, "no cores"):
            server.await_reservations(spark, {"error": "no cores"})
        spark.cancelAllJobs.assert_called_once_with()

    def test_the_environment_says_where_it_listens(self):
        server = reservation.Server(1)
        with unittest.mock.patch.dict(os.environ, {"TFOS_SERVER_HOST": "my_host_ip"}):
            self.assertEqual(server.get_server_ip(), "my_host_ip")
        for given, ports in (("9999", [9999]), ("9997-9999", [9997, 9998, 9999])):
            with unittest.mock.patch.dict(os.environ, {"TFOS_SERVER_PORT": given}):
                self.assertEqual(server.get_server_ports(), ports)
        with unittest.mock.patch.dict(os.environ, {"TFOS_SERVER_PORT": "1-2-3"}):
            with self.assertRaisesRegex(Exception, "Invalid TFOS_SERVER_PORT: 1-2-3"):
                server.get_server_ports()
        listener = server.start_listening_socket()
        self.addCleanup(listener.close)
        taken = listener.getsockname()[1]
        with unittest.mock.patch.dict(os.environ, {"TFOS_SERVER_PORT": str(taken)}):
            with self.assertRaisesRegex(Exception, f"unable to bind to any ports, port_list = .{taken}"):
                server.start_listening_socket()


_SMI = """#!/bin/sh
case "$*" in
  --list-gpus) printf 'GPU 0: Some A (UUID: GPU-a)\\nGPU 1: Some B (UUID: GPU-b)\\nGPU 2: Some C (UUID: GPU-c)\\n' ;;
  *) printf '%s' "$BUSY" ;;
esac
"""


class GpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = unittest.mock.patch.dict(os.environ, {"PATH": folder.name + os.pathsep + os.environ["PATH"]})
        patch.start()
        self.addCleanup(patch.stop)

    def _install(self, busy):
        script = pathlib.Path(self.folder, "nvidia-smi")
        script.write_text(_SMI, encoding="ascii")
        script.chmod(0o755)
        os.environ["BUSY"] = busy

    def test_free_gpus_are_chosen_by_the_workers_index(self):
        self._install("GPU-b\n")
        self.assertTrue(gpu_info.is_gpu_available())
        self.assertEqual(gpu_info.get_gpus(2, 0), "0,2")
        self.assertEqual(gpu_info.get_gpus(1, 0, gpu_info.AS_LIST), ["0"])
        self.assertEqual(gpu_info.get_gpus(1, 1, gpu_info.AS_LIST), ["2"])
        self.assertEqual(gpu_info.get_gpus(1, 2, gpu_info.AS_LIST), ["0"], "there are two")
        self.assertIn(gpu_info.get_gpus(), ("0", "2"))
        with self.assertRaisesRegex(Exception, "Unknown GPU format"):
            gpu_info.get_gpus(1, format="tuple")

    def test_too_few_free_ones_are_an_error(self):
        self._install("GPU-b\nGPU-a\n")
        with unittest.mock.patch("time.sleep") as sleep, self.assertRaisesRegex(Exception, "Unable to find 2 free GPU"):
            gpu_info.get_gpus(2)
        self.assertEqual([call.args[0] for call in sleep.call_args_list], [30, 60, 90])

    def test_a_process_by_itself_has_its_gpus_or_none(self):
        with unittest.mock.patch.dict(os.environ):
            self._install("GPU-a\n")
            util.single_node_env(1, 2, ["h1:1", "h2:1", "h1:2"])
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "2", "the second of its host")
            util.single_node_env(0)
            self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "")
            os.remove(os.path.join(self.folder, "nvidia-smi"))
            with unittest.mock.patch.dict(os.environ, {"PATH": self.folder}):
                self.assertFalse(gpu_info.is_gpu_available())
                util.single_node_env(1)
                self.assertEqual(os.environ["CUDA_VISIBLE_DEVICES"], "")


class CompatTest(unittest.TestCase):
    def test_every_node_exports_and_the_chief_to_the_place(self):
        for package, version, of_keras_2 in (
            ("keras", "3.12.0", False),
            ("keras", "2.15.0", True),  # which has an export() too
            ("tf_keras", "2.19.0", True),
            ("tensorflow", "2.4.0", True),
        ):
            members = {name: unittest.mock.Mock() for name in ("export", "save")}
            base = type("Model", (), {"__module__": f"{package}.src.models", **members})
            model = type("OfAProgram", (base,), {"__module__": "__main__"})()
            libraries = {package: types.SimpleNamespace(__version__=version)}
            with self.subTest(package=package, version=version), unittest.mock.patch.dict(sys.modules, libraries):
                compat.export_saved_model(model, "place", is_chief=True)
                compat.export_saved_model(model, "place")
                called, other = (model.save, model.export) if of_keras_2 else (model.export, model.save)
                self.assertEqual([call.args for call in called.call_args_list], [("place",), ("worker_model",)])
                self.assertEqual(called.call_args.kwargs, {"save_format": "tf"} if of_keras_2 else {})
                other.assert_not_called()


class UtilTest(unittest.TestCase):
    def test_find_in_path(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tool").write_text("")
            self.assertEqual(util.find_in_path(os.pathsep.join(["/nonexistent", folder]), "tool"), f"{folder}/tool")
            self.assertIs(util.find_in_path(folder, "other"), False)

    def test_the_executors_number_is_kept_in_its_folder(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            with self.assertRaisesRegex(Exception, "No executor_id file found on this node"):
                util.read_executor_id()
            util.write_executor_id(7)
            self.assertEqual(util.read_executor_id(), 7)


class ExampleTest(unittest.TestCase):
    def test_features_come_back(self):
        data = _example.serialize({
            "ints": _example.int64_feature([0, -1, 300, -(1 << 63), True]),
            "floats": _example.float_feature([0.5, -2.0]),
            "texts": _example.bytes_feature([b"", b"\xff\0"]),
            "none": _example.int64_feature([]),
        })  # fmt: skip
        features = _example.parse(data).features.feature
        self.assertEqual(features["ints"].int64_list.value, [0, -1, 300, -(1 << 63), 1])
        self.assertEqual(features["floats"].float_list.value, [0.5, -2.0])
        self.assertEqual(features["texts"].bytes_list.value, [b"", b"\xff\0"])
        self.assertEqual(features["none"].int64_list.value, [])
        self.assertEqual((features["none"].bytes_list.value, features["ints"].float_list.value), ([], []))

    def test_values_that_are_not_packed_are_read(self):
        data = bytes.fromhex("0a0b0a090a0178" "1204" "1a020805")
        self.assertEqual(_example.parse(data).features.feature["x"].int64_list.value, [5])

    def test_every_cut_of_an_example_is_an_error_or_a_smaller_one(self):
        data = _example.serialize({"x": _example.int64_feature([1, 2, 300]), "y": _example.bytes_feature([b"abc"])})
        for size in range(1, len(data)):
            with self.assertRaisesRegex(ValueError, f"a record of {size} bytes is no tf.train.Example"):
                _example.parse(data[:size])
        for hostile in (b"\x0f", b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"\x08\x80"):
            with self.assertRaises(ValueError):
                _example.parse(hostile)
        self.assertEqual(_example.parse(b"").features.feature, {})


class RunTest(unittest.TestCase):
    """What TFCluster.run refuses before it starts anything."""

    def _refuses(self, kind, text, *arguments, **options):
        with self.assertRaisesRegex(kind, text):
            TFCluster.run(None, print, argparse.Namespace(), *arguments, **options)

    def test_roles_that_do_not_fit(self):
        self._refuses(AssertionError, "TensorFlow cluster requires at least one worker or master/chief node", 2, 2)
        self._refuses(AssertionError, "TensorFlow cluster requires 3 nodes, but only 2 executors available", 2, 3)
        spark = TFCluster.InputMode.SPARK
        self._refuses(Exception, "PS nodes on driver locally", 2, 1, driver_ps_nodes=True, input_mode=spark)
        self._refuses(Exception, "running evaluator nodes is only supported", 2, 0, eval_node=True, input_mode=spark)

    def test_calls_that_need_a_feed_say_so(self):
        cluster = TFCluster.TFCluster(None)
        cluster.input_mode = TFCluster.InputMode.TENSORFLOW
        for call in (cluster.train, cluster.inference):
            with self.assertRaisesRegex(AssertionError, r"TFCluster\.\w+\(\) requires InputMode.SPARK"):
                call(None)
        cluster.input_mode, cluster.queues = TFCluster.InputMode.SPARK, ["input"]
        with self.assertRaisesRegex(AssertionError, "Unknown queue: other"):
            cluster.train(None, qname="other")
        with self.assertRaisesRegex(AssertionError, "num_epochs cannot be negative"):
            cluster.train(None, -1)


if __name__ == "__main__":
    unittest.main()
