<?php
// Laravel's own queue worker, until the queue is empty. Each job prints one line of JSON.
// Arguments: unix socket of the server, prefix of the connection, name of the queue.
// Debian's packages of Laravel's parts are enough; no application is needed around them.

foreach (['Container', 'Events', 'Redis', 'Queue'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Redis\RedisManager;

class SendWelcome
{
    public function fire($job, array $data)
    {
        echo json_encode(['attempt' => $job->attempts(), 'id' => $job->getJobId(), 'data' => $data]), "\n";
        if ($job->attempts() <= ($data['failures'] ?? 0)) {
            throw new RuntimeException('no connection');
        }
        $job->delete();
    }
}

class Errors implements ExceptionHandler
{
    public function report(Throwable $e)
    {
        if ($e->getMessage() !== 'no connection') {
            fwrite(STDERR, $e->getMessage()."\n");
        }
    }

    public function shouldReport(Throwable $e)
    {
        return true;
    }

    public function render($request, Throwable $e)
    {
    }

    public function renderForConsole($output, Throwable $e)
    {
    }
}

[, $socket, $prefix, $name] = $argv;
$container = new Container();
$container->instance('redis', new RedisManager($container, 'phpredis', [
    'default' => ['host' => $socket, 'port' => 0, 'database' => 0],
    'options' => ['prefix' => $prefix],
]));
$events = new Dispatcher($container);
$container->instance(Illuminate\Contracts\Events\Dispatcher::class, $events);
$capsule = new Manager($container);
$capsule->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90]);
$manager = $capsule->getQueueManager();
$worker = new Worker($manager, $events, new Errors(), fn () => false);
exit($worker->daemon('default', $name, new WorkerOptions('default', 0, 128, 60, 0, 1, false, true)));
