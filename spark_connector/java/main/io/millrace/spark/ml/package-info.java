/**
 * Clusters as stages of Spark ML: an estimator that fits by a cluster of node programs, and a model that adds columns
 * by one. They need spark-mllib, which every distribution of Spark has; nothing else of the jar does.
 */
package io.millrace.spark.ml;
