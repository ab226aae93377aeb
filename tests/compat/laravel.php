<?php
// Does with Laravel's own cache lock what each line of standard input says, and answers with one line of JSON.
// Arguments: unix socket of the server, prefix of the connection, prefix of the cache.
// Debian's packages of Laravel's parts are enough; no application is needed around them.

foreach (['Container', 'Events', 'Cache', 'Redis'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\RedisManager;

[, $socket, $connectionPrefix, $cachePrefix] = $argv;
$manager = new RedisManager(new Illuminate\Container\Container(), 'phpredis', [
    'default' => ['host' => $socket, 'port' => 0, 'database' => 0],
    'options' => ['prefix' => $connectionPrefix],
]);
$store = new RedisStore($manager, $cachePrefix);
$locks = [];

while (($line = fgets(STDIN)) !== false) {
    [$what, $name, $number, $owner] = array_pad(explode(' ', rtrim($line, "\n")), 4, null);
    $answer = null;
    switch ($what) {
        case 'get':
            $locks[$name] = $store->lock($name, (int) $number, $owner);
            $answer = $locks[$name]->get();
            break;
        case 'block':
            $locks[$name] = $store->lock($name, 30);
            echo "\"waiting\"\n";
            try {
                $answer = $locks[$name]->block((int) $number);
            } catch (LockTimeoutException $late) {
                $answer = 'timeout';
            }
            break;
        case 'release':
            $answer = $locks[$name]->release();
            break;
        case 'restore':
            $locks[$name] = $store->restoreLock($name, $owner);
            $answer = true;
            break;
        case 'force':
            $store->lock($name)->forceRelease();
            $answer = true;
            break;
        case 'owner':
            $answer = $locks[$name]->owner();
            break;
    }
    echo json_encode($answer), "\n";
}
