package io.millrace.spark.internal.spark;

import java.util.function.Supplier;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import scala.Some;
import scala.reflect.ClassTag$;

/**
 * An RDD that is made when its partitions are first asked for, by an action or what stands on it: the partitions of a
 * DataFrame that Spark plans adaptively are known only after its shuffles have run. Thread-safe.
 */
final class DeferredRdd<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final transient Supplier<RDD<T>> maker;
  /** Null until it is made; tasks have it. Guarded by this. */
  private RDD<T> made;

  /**
   * The RDD that {@code maker} makes.
   *
   * @param maker called on the driver, once, and again only after it has thrown
   */
  DeferredRdd(SparkContext spark, Class<?> elements, Supplier<RDD<T>> maker) {
    // The parent is there for the context alone: getDependencies() names another. The constructor that needs none
    // takes a Seq, which is not the same class in Scala 2.12 and 2.13.
    super(spark.emptyRDD(DeferredRdd.<T>tagOf(elements)), DeferredRdd.<T>tagOf(elements));
    this.maker = maker;
  }

  @SuppressWarnings("unchecked")
  private static <T> scala.reflect.ClassTag<T> tagOf(Class<?> elements) {
    return (scala.reflect.ClassTag<T>) ClassTag$.MODULE$.apply(elements);
  }

  private synchronized RDD<T> made() {
    if (made == null) {
      made = maker.get();
    }
    return made;
  }

  @Override
  public Partition[] getPartitions() {
    return made().partitions();
  }

  /** Also overrides the method of Scala 2.12's Spark, which returns a {@code scala.collection.Seq}: javac adds it. */
  @Override
  public scala.collection.immutable.Seq<Dependency<?>> getDependencies() {
    return new Some<Dependency<?>>(new OneToOneDependency<>(made())).toList();
  }

  @Override
  public scala.collection.Iterator<T> compute(Partition split, TaskContext task) {
    return made().iterator(split, task);
  }
}
